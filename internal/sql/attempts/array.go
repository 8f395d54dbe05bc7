package attempts

import "github.com/oncelib/once/internal/sql/dialect"

// insertArrays is the statement for PostgreSQL. It has one array for each column, so its text is the same for any number of
// rows. For 256 rows it needs two thirds of the time of a statement with one argument for each value.
const insertArrays = `insert into once_attempt (` + columns + `)
 select key_hash, id, scope, statement_timestamp() - ago * interval '1 microsecond', outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
  request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us
 from unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[],
  $13::text[], $14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[])
 as t (key_hash, id, scope, ago, outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
  request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 on conflict do nothing`

// arrays returns the arguments of insertArrays.
func arrays(list []Attempt) []any {
	rows := make([][]any, len(list))
	for i := range list {
		rows[i] = list[i].values()
	}
	return dialect.Arrays(rows)
}
