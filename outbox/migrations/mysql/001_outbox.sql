-- Messages that wait for their delivery, and the last sequence number of each key: see package outbox.
create table once_stream (
	topic varbinary(255) not null,  -- texts are UTF-8, compared by their bytes
	`key` varbinary(255) not null,
	seq   bigint         not null,  -- of the last message that was added
	primary key (topic, `key`)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
create table once_outbox (
	part       smallint         not null,  -- hash of topic and key; one relay at a time holds a part
	id         bigint           not null auto_increment,
	topic      varbinary(255)   not null,
	`key`      varbinary(255)   not null,  -- '' is unordered
	seq        bigint,                     -- 1, 2, ... within topic and key; null is unordered
	event_id   char(36)         not null,
	event_type varbinary(255)   not null,
	source     varbinary(255)   not null,
	headers    mediumblob       not null,  -- JSON, or encrypted; '' is none
	payload    longblob         not null,
	encrypted  boolean          not null,  -- headers and payload
	trace      varbinary(255)   not null,  -- W3C traceparent; '' is none
	created_at bigint           not null,  -- milliseconds since 1970, by the database's clock
	primary key (part, id),
	unique key once_outbox_seq (topic, `key`, seq),
	index once_outbox_id (id)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Delivered messages, if they are kept.
create table once_outbox_sent (
	part       smallint         not null,
	id         bigint           not null,
	topic      varbinary(255)   not null,
	`key`      varbinary(255)   not null,
	seq        bigint,
	event_id   char(36)         not null,
	event_type varbinary(255)   not null,
	source     varbinary(255)   not null,
	headers    mediumblob       not null,
	payload    longblob         not null,
	encrypted  boolean          not null,
	trace      varbinary(255)   not null,
	created_at bigint           not null,
	sent_at    bigint           not null,
	primary key (part, id),
	index once_outbox_sent_at (sent_at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Messages whose delivery has failed. Later messages of the same key wait for them.
create table once_outbox_failed (
	part       smallint         not null,
	id         bigint           not null,
	topic      varbinary(255)   not null,
	`key`      varbinary(255)   not null,
	attempts   bigint           not null,
	next_at    bigint,                     -- of the next attempt; null: stopped, a person decides
	failed_at  bigint           not null,  -- for the first time
	error      varbinary(2048)  not null,
	primary key (part, id),
	index once_outbox_failed_key (topic, `key`)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- Topics and keys whose delivery a person has paused.
create table once_outbox_paused (
	topic     varbinary(255) not null,
	`key`     varbinary(255) not null,  -- '' is the whole topic
	reason    varbinary(512) not null,
	paused_at bigint         not null,
	primary key (topic, `key`)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
