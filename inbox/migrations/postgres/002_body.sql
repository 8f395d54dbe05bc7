-- Bodies of applied messages, for consumers that report those that come again under another ID: see package inbox.
create table once_inbox_body (
	consumer     text collate "C" not null,
	source       text collate "C" not null,
	payload_hash bytea            not null,  -- SHA-256
	event_id     text collate "C" not null,
	applied_at   timestamptz      not null,
	primary key (consumer, source, payload_hash, event_id)
);
create index once_inbox_body_applied on once_inbox_body (consumer, source, applied_at);
