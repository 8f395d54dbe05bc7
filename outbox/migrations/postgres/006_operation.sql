-- Which operation has added a message: its scope and key, as once_operation has them. '' is none. The record of the operation has the IDs of its
-- messages, which are found by these indexes: IDs grow with time, so that a new one is put at the end.
alter table once_outbox add column op_scope text collate "C" not null default '', add column op_key text collate "C" not null default '';
alter table once_outbox_sent add column op_scope text collate "C" not null default '', add column op_key text collate "C" not null default '';
create index once_outbox_event on once_outbox (event_id);
create index once_outbox_sent_event on once_outbox_sent (event_id);
