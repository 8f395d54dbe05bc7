-- What a client has asked for, or is about to, and does not know the outcome of: see
-- package retry/journal.
create table once_intent (
	name    text    not null primary key,  -- SHA-256 of key, method and address, in hex
	id      text    not null,              -- of this row: an intent that comes again has another one
	key     text    not null,
	method  text    not null,
	url     text    not null,
	header  text    not null,              -- JSON
	body    blob    not null,
	since   integer not null,              -- milliseconds since 1970, by the client's clock
	expires integer not null,              -- likewise; 0 is not known
	held    text    not null,              -- why it waits for a person; '' is that it does not
	calls   integer not null               -- that have begun it, or planned it
);
create index once_intent_since on once_intent (since);
