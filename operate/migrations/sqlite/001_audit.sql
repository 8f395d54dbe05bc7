-- What an operator has done to stored operations: see package operate.
create table once_audit (
	id       integer primary key autoincrement,
	at       integer not null default (cast((julianday('now') - 2440587.5) * 86400000.0 as integer)),
	who      text    not null,
	action   text    not null,        -- forget or release
	scope    text    not null,
	key_hash text    not null,
	reason   text    not null,
	detail   text    not null         -- what was changed
);
