-- What a client has asked for, or is about to, and does not know the outcome of: see
-- package retry/journal.
create table once_intent (
	name    varchar(64)    not null primary key,  -- SHA-256 of key, method and address, in hex
	id      varchar(64)    not null,              -- of this row: an intent that comes again has another one
	`key`   varbinary(512) not null,
	method  varbinary(64)  not null,
	url     blob           not null,
	header  blob           not null,              -- JSON
	body    longblob       not null,
	since   bigint         not null,              -- milliseconds since 1970, by the client's clock
	expires bigint         not null,              -- likewise; 0 is not known
	held    blob           not null,              -- why it waits for a person; '' is that it does not
	calls   bigint         not null,              -- that have begun it, or planned it
	index once_intent_since (since)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
