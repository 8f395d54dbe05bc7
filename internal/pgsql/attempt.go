package pgsql

// AttemptColumns are those of the attempt log, in the order in which the stores write them.
const AttemptColumns = `key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
 request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us`

// InsertAttempts takes an array for each column; that of at is how long ago it was,
// in microseconds. The text is the same for any number of rows.
const InsertAttempts = `insert into once_attempt (` + AttemptColumns + `)
 select key_hash, id, scope, statement_timestamp() - ago * interval '1 microsecond', outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
  request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us
 from unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[],
  $13::text[], $14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[])
 as t (key_hash, id, scope, ago, outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
  request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 on conflict do nothing`

// SweepAttempts deletes what ended more than $1 microseconds ago, at most $2 rows. Nodes
// that sweep at the same time do not wait for each other.
const SweepAttempts = `with old as (
  select key_hash, id from once_attempt where at < statement_timestamp() - $1::bigint * interval '1 microsecond' order by at limit $2 for update skip locked)
 delete from once_attempt a using old where a.key_hash = old.key_hash and a.id = old.id`
