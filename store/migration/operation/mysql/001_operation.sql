create table once_operation (
	scope       varbinary(512) not null,             -- text in UTF-8, compared by its bytes
	`key`       varbinary(255) not null,             -- or "sha256-...": see Config.HashKeys
	state       tinyint        not null default 3,   -- 1 running, 2 done, 3 unknown: what a claim leaves if it is committed from below
	fence       bigint         not null default 1,   -- grows with every takeover
	claim       varbinary(255) not null default '',  -- nonce of the writer
	fingerprint varbinary(255),                      -- version byte, SHA-256
	status      smallint       not null default 0,   -- HTTP status of the result
	kind        tinyint        not null default 0,   -- 0 value, 1 final failure, 2 too large to be kept
	head        mediumblob,                          -- "Name: value" lines
	body        longblob,
	request     longblob,                            -- what was asked, encrypted
	point       blob,                                -- last committed recovery point, text in UTF-8
	calling     boolean        not null default 0,   -- an external call was begun after it
	data        longblob,                            -- what the recovery points saved
	lease_until bigint,                              -- milliseconds since 1970, by the database's clock
	since       bigint         not null,
	expires_at  bigint,
	primary key (scope, `key`)
) engine = InnoDB row_format = dynamic;
