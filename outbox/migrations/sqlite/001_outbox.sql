-- Messages that wait for their delivery, and the last sequence number of each key: see package outbox.
create table once_stream (
	topic text             not null,
	key   text             not null,
	seq   integer          not null,  -- of the last message that was added
	primary key (topic, key)
) without rowid;
create table once_outbox (
	part       integer          not null,  -- hash of topic and key; one relay at a time holds a part
	id         integer          primary key autoincrement,  -- no number comes twice, also after deletions
	topic      text             not null,
	key        text             not null,  -- '' is unordered
	seq        integer,                     -- 1, 2, ... within topic and key; null is unordered
	event_id   text             not null,
	event_type text             not null,
	source     text             not null,
	headers    blob             not null,  -- JSON, or encrypted; '' is none
	payload    blob             not null,
	encrypted  integer          not null,  -- headers and payload
	trace      text             not null,  -- W3C traceparent; '' is none
	created_at integer          not null,
	unique (part, id)
);
create unique index once_outbox_seq on once_outbox (topic, key, seq) where seq is not null;
-- Delivered messages, if they are kept.
create table once_outbox_sent (
	part       integer          not null,
	id         integer          not null,
	topic      text             not null,
	key        text             not null,
	seq        integer,
	event_id   text             not null,
	event_type text             not null,
	source     text             not null,
	headers    blob             not null,
	payload    blob             not null,
	encrypted  integer          not null,
	trace      text             not null,
	created_at integer          not null,
	sent_at    integer          not null,
	primary key (part, id)
) without rowid;
create index once_outbox_sent_at on once_outbox_sent (sent_at);
-- Messages whose delivery has failed. Later messages of the same key wait for them.
create table once_outbox_failed (
	part       integer          not null,
	id         integer          not null,
	topic      text             not null,
	key        text             not null,
	attempts   integer          not null,
	next_at    integer,                    -- of the next attempt; null: stopped, a person decides
	failed_at  integer          not null,  -- for the first time
	error      text             not null,
	primary key (part, id)
) without rowid;
create index once_outbox_failed_key on once_outbox_failed (topic, key);
-- Topics and keys whose delivery a person has paused.
create table once_outbox_paused (
	topic     text             not null,
	key       text             not null,  -- '' is the whole topic
	reason    text             not null,
	paused_at integer          not null,
	primary key (topic, key)
) without rowid;
