-- A message is named by its topic, key and number as well: two keys may have messages with the same source and ID.
-- Attempts with the seq -1 were noted by an older program, without topic and key.
alter table once_deadletter add unique key once_deadletter_identity (origin, consumer, source, event_id, payload_hash, topic, `key`, seq);
alter table once_deadletter drop index once_deadletter_message;
alter table once_deadletter_attempt add column topic varbinary(255) not null default '', add column `key` varbinary(255) not null default '', add column seq bigint not null default -1,
	drop primary key, add primary key (origin, consumer, source, event_id, topic, `key`, seq, attempt);
