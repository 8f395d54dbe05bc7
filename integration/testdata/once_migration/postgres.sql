-- 001_operation.sql
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
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (1, 'operation');
-- 002_expiry.sql
-- For the sweeper, which finds expired operations by it. On a large table, this can be
-- made beforehand without stopping writers: create index concurrently, with this text.
create index if not exists once_operation_expires_at on once_operation (expires_at) where state = 2;
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (2, 'expiry');
-- 003_attempt.sql
-- What was tried, also without a record to show for it: see package attemptlog.
create table once_attempt (
	key_hash       text collate "C" not null,  -- first 16 hex digits of SHA-256 of the key
	id             bytea       not null,       -- of the attempt
	scope          text collate "C" not null,
	at             timestamptz not null,       -- when it had ended
	outcome        text        not null,       -- executed, replayed, declined, why not, or dropped
	effect         text        not null,       -- what that proves: applied, not applied, in doubt
	from_state     text        not null,       -- of the operation, as the attempt has found it; '' is not known
	to_state       text        not null,       -- and as it has left it
	cause          text        not null,       -- SQLSTATE, HTTP status or kind of an error
	attempt        bigint      not null,       -- number that the client gives it; 0 is none
	runs           bigint      not null,       -- of the handler
	dropped        bigint      not null,       -- attempts in place of which this row stands
	request_id     text        not null,
	correlation_id text        not null,
	node           text        not null,
	lock_wait_us   bigint      not null,       -- microseconds, as all that follow
	waited_us      bigint      not null,
	handler_us     bigint      not null,
	commit_us      bigint      not null,
	total_us       bigint      not null,
	primary key (key_hash, id)
);
create index once_attempt_at on once_attempt (at);

-- What an operator has done to stored operations: see package admin.
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
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (3, 'attempt');
-- 004_intent.sql
-- What a client has asked for, or is about to, and does not know the outcome of: see
-- package retry/journal.
create table once_intent (
	name    text collate "C" primary key,  -- SHA-256 of key, method and address, in hex
	id      text   not null,               -- of this row: an intent that comes again has another one
	key     text   not null,
	method  text   not null,
	url     text   not null,
	header  text   not null,               -- JSON
	body    bytea  not null,
	since   bigint not null,               -- milliseconds since 1970, by the client's clock
	expires bigint not null,               -- likewise; 0 is not known
	held    text   not null,               -- why it waits for a person; '' is that it does not
	calls   bigint not null                -- that have begun it, or planned it
);
create index once_intent_since on once_intent (since);
create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp);
insert into once_migration (version, name) values (4, 'intent');
insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'done', 2, 1, '\x85638e1f186d8abe65d346b2ce4375fe', '\x013a8a082a5af521ababfbd5c3e5311d40ac26572c4396679dde05564ee70804f6', 0, 0, null, '\x2272655f3122', '\x7b22616d6f756e74223a317d', null, false, null, null, '2026-11-22 16:57:36.949841Z', null);
insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'declined', 2, 1, '\x6e7533267eba02e1b78c4082e212bd8a', '\x01972bf854384a64fad7104927ddefc703438041a11735bfa2369274c0460a6eb6', 0, 1, null, '\x7b22636f6465223a226465636c696e6564222c226d657373616765223a226e6f206d6f6e6579227d', '\x7b22616d6f756e74223a327d', null, false, null, null, '2026-11-22 16:57:36.974885Z', null);
insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'forgotten', 2, 1, '\xdcae0f89ae01cb7ab99228acbb3cf63f', '\x0176477cb610917452f8ada7550a3dee4a1bf072f34953556b72818f95e4d8b2b8', 0, 2, null, null, null, null, false, null, null, '2026-11-22 16:57:37.009282Z', null);
insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'expired', 2, 1, '\x2856abe2b7b3dc244f6c1a50b41ca7a7', '\x01636feddcb5c69eeeaf0719f2dc457526818e38ec0d572287cd2d3cb7d9408682', 0, 0, null, '\x2272655f3522', '\x7b22616d6f756e74223a357d', null, false, null, null, '2001-01-01 00:00:00Z', '2001-01-01 00:00:00Z');
insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, since, expires_at)
 values ('acme POST /refunds', 'unknown', 3, 2, '\x65c2db521f023b20baea95ad75ea8f7c', '\x01258a926dd1e2a22d2e863d42fafd16f028d02591be5f03beff02e1cbac2b6313', 0, 0, null, null, '\x7b22616d6f756e74223a367d', null, false, null, null, '2026-11-22 16:57:37.019815Z', null);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('a4c3ed04a95a3da1', '\x03b8e1c1a10187390000000000000000', 'acme POST /refunds', '2026-11-22 16:57:36.973634Z', 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-done', '', 'node 1', 10081, 0, 17, 14465, 24737);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('a4c3ed04a95a3da1', '\x03b8e1c1a10187390000000000000001', 'acme POST /refunds', '2026-11-22 16:57:36.975756Z', 'replayed', 'applied', 'done', 'done', '', 1, 0, 0, 'req-done', '', 'node 1', 2073, 0, 0, 0, 2096);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('a8bfacf3bcd75164', '\x03b8e1c1a10187390000000000000002', 'acme POST /refunds', '2026-11-22 16:57:36.995586Z', 'declined', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-declined', '', 'node 1', 5120, 0, 52, 14592, 19820);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('5d28a90f4498a814', '\x03b8e1c1a10187390000000000000003', 'acme POST /refunds', '2026-11-22 16:57:37.007723Z', 'failed', 'not applied', 'absent', 'absent', '', 1, 1, 0, 'req-failed', '', 'node 1', 5544, 0, 11, 0, 12130);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('fa64ea1e82e1206f', '\x03b8e1c1a10187390000000000000005', 'acme POST /refunds', '2026-11-22 16:57:37.020709Z', 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-expired', '', 'node 1', 1785, 0, 58, 5946, 7821);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('b23a6a8439c0dde5', '\x03b8e1c1a10187390000000000000006', 'acme POST /refunds', '2026-11-22 16:57:37.023493Z', 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, 'req-unknown', '', 'node 1', 741, 0, 10, 1995, 2769);
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('0df365ca17669584', '\x03b8e1c1a10187390000000000000004', 'acme POST /refunds', '2026-11-22 16:57:37.012871Z', 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, '', '', 'node 1', 3506, 0, 12, 1591, 5141);
insert into once_audit (at, who, action, scope, key_hash, reason, detail)
 values ('2026-11-22 16:57:37.029292Z', 'ada', 'forget', 'acme POST /refunds', '0df365ca17669584', 'request 4711', 'done: 6 bytes of its result and its request erased; ids of 1 attempts erased');
insert into once_audit (at, who, action, scope, key_hash, reason, detail)
 values ('2026-11-22 16:57:37.057027Z', 'bob', 'show', 'acme POST /refunds', 'a4c3ed04a95a3da1', '', 'keys show');
insert into once_intent (name, id, key, method, url, header, body, since, expires, held, calls)
 values ('6d99aa91417cede9ec892f27594ea9ab3b074cd73574b697fa0ad7e8f8fe5ead', '7AZE2XO2ZPJSZNTTX6OJAT6CLL', 'refund:1', 'POST', 'https://bank.example/refunds', '{"Content-Type":["application/json"]}', '\x7b22616d6f756e74223a317d', 1795366657070, 0, '', 1);
insert into once_intent (name, id, key, method, url, header, body, since, expires, held, calls)
 values ('77bcd5ef3eb9312cb98733494b277443b449c69e88ebfe361a5bec6176d42556', '2JKIQ4UFCHGKXHOZ4AUEQZNBFD', 'refund:2', 'POST', 'https://bank.example/refunds', '{}', '\x00ff', 1795366657079, 0, 'its key has expired', 1);
