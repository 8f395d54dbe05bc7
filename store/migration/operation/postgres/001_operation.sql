create table once_operation (
	scope       text collate "C" not null,
	key         text collate "C" not null,           -- or "sha256-...": see Config.HashKeys
	state       smallint    not null default 2,      -- 1 running, 2 done, 3 unknown
	fence       bigint      not null default 1,      -- grows with every takeover
	claim       bytea       not null,                -- nonce of the writer
	fingerprint bytea,                               -- version byte, SHA-256
	status      smallint    not null default 0,      -- HTTP status of the result
	kind        smallint    not null default 0,      -- 0 value, 1 final failure, 2 too large to be kept
	head        bytea,                               -- "Name: value" lines
	body        bytea,
	request     bytea,                               -- what was asked, encrypted
	point       text,                                -- last committed recovery point
	calling     boolean     not null default false,  -- an external call was begun after it
	data        bytea,                               -- what the recovery points saved
	lease_until timestamptz,
	since       timestamptz not null default now(),
	expires_at  timestamptz,
	primary key (scope, key)
);
