-- A message is named by its topic, key and number as well: two keys may have messages with the same source and ID.
create unique index once_deadletter_identity on once_deadletter (origin, consumer, source, event_id, payload_hash, topic, key, seq);
drop index once_deadletter_message;
create table once_deadletter_attempt_new (
	origin          text             not null,
	consumer        text             not null,
	source          text             not null,
	event_id        text             not null,
	attempt         integer          not null,  -- 1, 2, ...; of many only the first and the last are kept
	at              integer          not null,
	node            text             not null,
	error           text             not null,
	trace           text             not null,
	topic           text             not null default '',
	key             text             not null default '',
	seq             integer          not null default -1,  -- -1: noted by an older program, without topic and key
	primary key (origin, consumer, source, event_id, topic, key, seq, attempt)
) without rowid;
insert into once_deadletter_attempt_new (origin, consumer, source, event_id, attempt, at, node, error, trace)
	select origin, consumer, source, event_id, attempt, at, node, error, trace from once_deadletter_attempt;
drop table once_deadletter_attempt;
alter table once_deadletter_attempt_new rename to once_deadletter_attempt;
create index once_deadletter_attempt_at on once_deadletter_attempt (at);
