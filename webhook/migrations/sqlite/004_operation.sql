-- Which operation has sent an event: its scope and key, as once_operation has them. '' is none. The record of the operation has the IDs of its events.
alter table once_webhook_event add column op_scope text not null default '';
alter table once_webhook_event add column op_key text not null default '';
