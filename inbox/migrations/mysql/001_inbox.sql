-- Messages that a consumer has applied: see package inbox.
create table once_inbox (
	consumer     varbinary(64)  not null,  -- texts are UTF-8, compared by their bytes
	source       varbinary(255) not null,
	event_id     varbinary(255) not null,
	payload_hash varbinary(32)  not null,  -- SHA-256; '' of a marker, whose payload is gone
	received_at  bigint         not null,  -- milliseconds since 1970, by the database's clock
	processed_at bigint,                   -- null: its dead letter waits, and the row with it
	result       longblob,                 -- JSON, if one is kept
	primary key (consumer, source, event_id),
	index once_inbox_processed (consumer, source, processed_at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- How far a consumer is with the messages of a key.
create table once_inbox_position (
	consumer varbinary(64)  not null,
	source   varbinary(255) not null,
	topic    varbinary(255) not null,
	`key`    varbinary(255) not null,
	seq      bigint         not null,  -- of the last message that was applied or skipped
	parked   bigint         not null,  -- how many later messages wait in once_inbox_parked
	dead     boolean        not null,  -- the message seq + 1 is a dead letter: the key waits for it
	moved_at bigint         not null,
	primary key (consumer, source, topic, `key`),
	index once_inbox_position_parked (consumer, parked)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Messages that came before the one in front of them.
create table once_inbox_parked (
	consumer     varbinary(64)  not null,
	source       varbinary(255) not null,
	topic        varbinary(255) not null,
	`key`        varbinary(255) not null,
	seq          bigint         not null,
	event_id     varbinary(255) not null,
	event_type   varbinary(255) not null,
	payload_hash varbinary(32)  not null,
	headers      mediumblob     not null,  -- JSON, or encrypted; '' is none
	payload      longblob       not null,
	encrypted    boolean        not null,  -- headers and payload
	trace        varbinary(255) not null,  -- W3C traceparent; '' is none
	created_at   bigint,
	parked_at    bigint         not null,
	next_at      bigint,                   -- of its next attempt; null: none has failed
	primary key (consumer, source, topic, `key`, seq)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
