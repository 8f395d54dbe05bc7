-- Messages that a consumer has applied: see package inbox.
create table once_inbox (
	consumer     text collate "C" not null,
	source       text collate "C" not null,
	event_id     text collate "C" not null,
	payload_hash bytea            not null,  -- SHA-256; '' of a marker, whose payload is gone
	received_at  timestamptz      not null,
	processed_at timestamptz,                -- null: its dead letter waits, and the row with it
	result       bytea,                      -- JSON, if one is kept
	primary key (consumer, source, event_id)
);
create index once_inbox_processed on once_inbox (consumer, source, processed_at);
-- How far a consumer is with the messages of a key.
create table once_inbox_position (
	consumer text collate "C" not null,
	source   text collate "C" not null,
	topic    text collate "C" not null,
	key      text collate "C" not null,
	seq      bigint           not null,  -- of the last message that was applied or skipped
	parked   bigint           not null,  -- how many later messages wait in once_inbox_parked
	dead     boolean          not null,  -- the message seq + 1 is a dead letter: the key waits for it
	moved_at timestamptz      not null,
	primary key (consumer, source, topic, key)
) with (fillfactor = 50);  -- an update finds room on its page, and touches no index
create index once_inbox_position_parked on once_inbox_position (consumer) where parked > 0;
-- Messages that came before the one in front of them.
create table once_inbox_parked (
	consumer     text collate "C" not null,
	source       text collate "C" not null,
	topic        text collate "C" not null,
	key          text collate "C" not null,
	seq          bigint           not null,
	event_id     text             not null,
	event_type   text             not null,
	payload_hash bytea            not null,
	headers      bytea            not null,  -- JSON, or encrypted; '' is none
	payload      bytea            not null,
	encrypted    boolean          not null,  -- headers and payload
	trace        text             not null,  -- W3C traceparent; '' is none
	created_at   timestamptz,
	parked_at    timestamptz      not null,
	next_at      timestamptz,                -- of its next attempt; null: none has failed
	primary key (consumer, source, topic, key, seq)
);
