-- 001_operation.sql
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
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (1, 'operation');
-- 002_expiry.sql
-- For the sweeper, which finds expired operations by it.
create index once_operation_expires_at on once_operation (expires_at);
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (2, 'expiry');
-- 003_attempt.sql
-- What was tried, also without a record to show for it: see package attemptlog.
create table once_attempt (
	key_hash       varchar(16)    not null,  -- first 16 hex digits of SHA-256 of the key
	id             varbinary(32)  not null,  -- of the attempt
	scope          varbinary(512) not null,
	at             bigint         not null,  -- when it had ended, in milliseconds since 1970
	outcome        varchar(32)    not null,  -- executed, replayed, declined, why not, or dropped
	effect         varchar(16)    not null,  -- what that proves: applied, not applied, in doubt
	from_state     varchar(16)    not null,  -- of the operation, as the attempt has found it; '' is not known
	to_state       varchar(16)    not null,  -- and as it has left it
	cause          varchar(64)    not null,  -- SQLSTATE, HTTP status or kind of an error
	attempt        bigint         not null,  -- number that the client gives it; 0 is none
	runs           bigint         not null,  -- of the handler
	dropped        bigint         not null,  -- attempts in place of which this row stands
	request_id     varbinary(512) not null,
	correlation_id varbinary(512) not null,
	node           varbinary(512) not null,
	lock_wait_us   bigint         not null,  -- microseconds, as all that follow
	waited_us      bigint         not null,
	handler_us     bigint         not null,
	commit_us      bigint         not null,
	total_us       bigint         not null,
	primary key (key_hash, id),
	index once_attempt_at (at)
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
-- What an operator has done to stored operations: see package admin.
create table once_audit (
	id       bigint         not null auto_increment primary key,
	at       bigint         not null,
	who      blob           not null,
	action   varchar(16)    not null,        -- forget or release
	scope    varbinary(512) not null,
	key_hash varchar(16)    not null,
	reason   blob           not null,
	detail   blob           not null         -- what was changed
) engine = InnoDB row_format = dynamic default charset = ascii collate = ascii_bin;
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (3, 'attempt');
-- 004_intent.sql
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
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (4, 'intent');
insert into once_operation (scope, `key`, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'declined', 2, 1, x'969004a0d3cda653d537b43b4c233424', x'01972bf854384a64fad7104927ddefc703438041a11735bfa2369274c0460a6eb6', 0, 1, null, '{"code":"declined","message":"no money"}', '{"amount":2}', '', 0, null, null, 1795366655730, null);
insert into once_operation (scope, `key`, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'done', 2, 1, x'f5f813afbd631d7c6970532aadf3f578', x'013a8a082a5af521ababfbd5c3e5311d40ac26572c4396679dde05564ee70804f6', 0, 0, null, '"re_1"', '{"amount":1}', '', 0, null, null, 1795366655695, null);
insert into once_operation (scope, `key`, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'expired', 2, 1, x'0249aa7a52349f03df5db97475f2dac2', x'01636feddcb5c69eeeaf0719f2dc457526818e38ec0d572287cd2d3cb7d9408682', 0, 0, null, '"re_5"', '{"amount":5}', '', 0, null, null, 1000000000000, 1000000000000);
insert into once_operation (scope, `key`, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'forgotten', 2, 1, x'703b3a32f500d54b9dc6a30da0270e51', x'0176477cb610917452f8ada7550a3dee4a1bf072f34953556b72818f95e4d8b2b8', 0, 2, null, null, null, null, 0, null, null, 1795366655743, null);
insert into once_operation (scope, `key`, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'unknown', 3, 2, x'cd5e6460622fbf3d431ac10ab39ee618', x'01258a926dd1e2a22d2e863d42fafd16f028d02591be5f03beff02e1cbac2b6313', 0, 0, null, null, '{"amount":6}', '', 0, null, null, 1795366655763, null);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('0df365ca17669584', x'facbc54c5a4a02330000000000000004', 'acme POST /refunds', 1795366655761, 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, '', '', 'node 1', 551, 0, 10, 17449, 18076);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('5d28a90f4498a814', x'facbc54c5a4a02330000000000000003', 'acme POST /refunds', 1795366655743, 'failed', 'not applied', 'absent', 'absent', '', 1, 1, 0, 'req-failed', '', 'node 1', 1030, 0, 8, 0, 1789);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('a4c3ed04a95a3da1', x'facbc54c5a4a02330000000000000000', 'acme POST /refunds', 1795366655729, 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-done', '', 'node 1', 17382, 0, 15, 18642, 36066);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('a4c3ed04a95a3da1', x'facbc54c5a4a02330000000000000001', 'acme POST /refunds', 1795366655730, 'replayed', 'applied', 'done', 'done', '', 1, 0, 0, 'req-done', '', 'node 1', 662, 0, 0, 0, 675);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('a8bfacf3bcd75164', x'facbc54c5a4a02330000000000000002', 'acme POST /refunds', 1795366655741, 'declined', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-declined', '', 'node 1', 855, 0, 17, 10363, 11297);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('b23a6a8439c0dde5', x'facbc54c5a4a02330000000000000006', 'acme POST /refunds', 1795366655765, 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-unknown', '', 'node 1', 599, 0, 9, 1830, 2500);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('fa64ea1e82e1206f', x'facbc54c5a4a02330000000000000005', 'acme POST /refunds', 1795366655763, 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-expired', '', 'node 1', 870, 0, 11, 874, 1775);
insert into once_audit (id, at, who, action, scope, key_hash, reason, detail)
 values (1, 1795366655774, 'ada', 'forget', 'acme POST /refunds', '0df365ca17669584', 'request 4711', 'done: 6 bytes of its result and its request erased; ids of 1 attempts erased');
insert into once_audit (id, at, who, action, scope, key_hash, reason, detail)
 values (2, 1795366655778, 'bob', 'show', 'acme POST /refunds', 'a4c3ed04a95a3da1', '', 'keys show');
insert into once_intent (name, id, `key`, method, url, header, body, since, expires, held, calls)
 values ('6d99aa91417cede9ec892f27594ea9ab3b074cd73574b697fa0ad7e8f8fe5ead', 'BWGZUZSHR44LYCLFMA7G3X77DR', 'refund:1', 'POST', 'https://bank.example/refunds', '{"Content-Type":["application/json"]}', '{"amount":1}', 1795366655782, 0, '', 1);
insert into once_intent (name, id, `key`, method, url, header, body, since, expires, held, calls)
 values ('77bcd5ef3eb9312cb98733494b277443b449c69e88ebfe361a5bec6176d42556', 'VYV3Z3FHCKM5B5KF4V4TMEOTCX', 'refund:2', 'POST', 'https://bank.example/refunds', '{}', x'00ff', 1795366655784, 0, 'its key has expired', 1);
