-- Bodies of applied messages, for consumers that report those that come again under another ID: see package inbox.
create table once_inbox_body (
	consumer     text    not null,
	source       text    not null,
	payload_hash blob    not null,  -- SHA-256
	event_id     text    not null,
	applied_at   integer not null,
	primary key (consumer, source, payload_hash, event_id)
) without rowid;
create index once_inbox_body_applied on once_inbox_body (consumer, source, applied_at);
