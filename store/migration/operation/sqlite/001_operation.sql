create table once_operation (
	scope       text    not null,
	key         text    not null,            -- or "sha256-...": see Config.HashKeys
	state       integer not null default 2,  -- 1 running, 2 done, 3 unknown
	fence       integer not null default 1,  -- grows with every takeover
	claim       blob    not null,            -- nonce of the writer
	fingerprint blob,                        -- version byte, SHA-256
	status      integer not null default 0,  -- HTTP status of the result
	kind        integer not null default 0,  -- 0 value, 1 final failure, 2 too large to be kept
	head        blob,                        -- "Name: value" lines
	body        blob,
	request     blob,                        -- what was asked, encrypted
	point       text,                        -- last committed recovery point
	calling     integer not null default 0,  -- an external call was begun after it
	data        blob,                        -- what the recovery points saved
	lease_until integer,                     -- milliseconds since 1970, by the database's clock
	since       integer not null,
	expires_at  integer,
	primary key (scope, key)
) without rowid;
