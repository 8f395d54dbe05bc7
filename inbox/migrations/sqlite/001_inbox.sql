-- Messages that a consumer has applied: see package inbox.
create table once_inbox (
	consumer     text             not null,
	source       text             not null,
	event_id     text             not null,
	payload_hash blob             not null,  -- SHA-256; '' of a marker, whose payload is gone
	received_at  integer          not null,
	processed_at integer,                    -- null: its dead letter waits, and the row with it
	result       blob,                       -- JSON, if one is kept
	primary key (consumer, source, event_id)
) without rowid;
create index once_inbox_processed on once_inbox (consumer, source, processed_at);
-- How far a consumer is with the messages of a key.
create table once_inbox_position (
	consumer text             not null,
	source   text             not null,
	topic    text             not null,
	key      text             not null,
	seq      integer          not null,  -- of the last message that was applied or skipped
	parked   integer          not null,  -- how many later messages wait in once_inbox_parked
	dead     integer          not null,  -- the message seq + 1 is a dead letter: the key waits for it
	moved_at integer          not null,
	primary key (consumer, source, topic, key)
) without rowid;
create index once_inbox_position_parked on once_inbox_position (consumer) where parked > 0;
-- Messages that came before the one in front of them.
create table once_inbox_parked (
	consumer     text             not null,
	source       text             not null,
	topic        text             not null,
	key          text             not null,
	seq          integer          not null,
	event_id     text             not null,
	event_type   text             not null,
	payload_hash blob             not null,
	headers      blob             not null,  -- JSON, or encrypted; '' is none
	payload      blob             not null,
	encrypted    integer          not null,  -- headers and payload
	trace        text             not null,  -- W3C traceparent; '' is none
	created_at   integer,
	parked_at    integer          not null,
	next_at      integer,                    -- of its next attempt; null: none has failed
	primary key (consumer, source, topic, key, seq)
);
