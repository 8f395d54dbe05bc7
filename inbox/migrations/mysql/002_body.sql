-- Bodies of applied messages, for consumers that report those that come again under another ID: see package inbox.
create table once_inbox_body (
	consumer     varbinary(64)  not null,
	source       varbinary(255) not null,
	payload_hash varbinary(32)  not null,  -- SHA-256
	event_id     varbinary(255) not null,
	applied_at   bigint         not null,
	primary key (consumer, source, payload_hash, event_id),
	index once_inbox_body_applied (consumer, source, applied_at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
