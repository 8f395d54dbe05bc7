-- A message is named by its topic, key and number as well: two keys may have messages with the same source and ID.
create unique index once_deadletter_identity on once_deadletter (origin, consumer, source, event_id, payload_hash, topic, key, seq);
drop index once_deadletter_message;
-- Attempts with the seq -1 were noted by an older program, without topic and key.
alter table once_deadletter_attempt add column topic text collate "C" not null default '';
alter table once_deadletter_attempt add column key text collate "C" not null default '';
alter table once_deadletter_attempt add column seq bigint not null default -1;
alter table once_deadletter_attempt drop constraint once_deadletter_attempt_pkey, add primary key (origin, consumer, source, event_id, topic, key, seq, attempt);
