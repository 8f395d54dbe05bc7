-- Which operation has sent an event: its scope and key, as once_operation has them. '' is none. The record of the operation has the IDs of its events.
alter table once_webhook_event add column op_scope varbinary(512) not null default '', add column op_key varbinary(255) not null default '';
