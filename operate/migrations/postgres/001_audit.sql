-- What an operator has done to stored operations: see package operate.
create table once_audit (
	id       bigint generated always as identity primary key,
	at       timestamptz not null default clock_timestamp(),
	who      text        not null,
	action   text        not null,             -- forget or release
	scope    text collate "C" not null,
	key_hash text collate "C" not null,
	reason   text        not null,
	detail   text        not null              -- what was changed
);
