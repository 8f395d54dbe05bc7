insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, state, request)
 values ('acme POST /refunds', 'old', '\x0102', null, 0, 0, null, '\x226f6c6422', clock_timestamp() + 3600000 * interval '1 ms', 2 / (now() = now())::int, null);
select pg_is_in_recovery(), coalesce(state, 0), coalesce(fence, 0), claim, fingerprint, coalesce(status, 0), coalesce(kind, 0), head, body, request,
 coalesce(point, ''), coalesce(calling, false), data, coalesce(lease_until <= clock_timestamp(), false), coalesce(since, now()), coalesce(state = 2 and expires_at <= now(), false) from (select) one left join once_operation on scope = 'acme POST /refunds' and key = 'new';
select state, fence, claim, fingerprint, status, kind, head, body, request,
 coalesce(point, ''), calling, data, coalesce(lease_until <= clock_timestamp(), false), since, coalesce(state = 2 and expires_at <= now(), false) from once_operation where scope = 'acme POST /refunds' and key = 'new';
with u as (update once_operation set state = 2, fence = 3, claim = '\x0102', fingerprint = null, status = 0, kind = 0, head = null, body = '\x226f6c6422',
 request = null, point = null, calling = false, data = null, lease_until = clock_timestamp() + null * interval '1 ms', expires_at = clock_timestamp() + 3600000 * interval '1 ms'
 where scope = 'acme POST /refunds' and key = 'unknown' and state <> 2 and fence = 2 and (not false or (state = 1 and lease_until <= clock_timestamp())) returning 1) select 1 / count(*)::int from u;
delete from once_operation where scope = 'acme POST /refunds' and key = 'expired' and state = 2 and expires_at <= now();
insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values ('0000000000000000', '\x0102', 'acme POST /refunds', clock_timestamp(), 'executed', 'applied', 'absent', 'done', '', 1, 1, 0, '', '', 'old node', 1, 2, 3, 4, 5);
insert into once_audit (at, who, action, scope, key_hash, reason, detail) values (clock_timestamp(), 'old', 'show', 'acme POST /refunds', '0000000000000000', '', 'by the old program');
insert into once_intent (name, id, key, method, url, header, body, since, expires, held, calls) values ('0000', 'AAAA', 'refund:3', 'POST', 'https://bank.example/refunds', '{}', '\x226f6c6422', 1700000000000, 0, '', 1);
