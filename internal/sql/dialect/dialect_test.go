package dialect

import (
	"testing"

	"github.com/oncelib/once/store/sqlplane"
)

// TestTextOfEachDialect: the text of each database. That they accept it and do the same is proved by
// package storetest, on all of them.
func TestTextOfEachDialect(t *testing.T) {
	for query, want := range map[string]map[sqlplane.Dialect]string{
		"select 1": {sqlplane.PostgreSQL: "select 1", sqlplane.MySQL: "select 1", sqlplane.SQLite: "select 1"},
		"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)": {
			sqlplane.PostgreSQL: "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
			sqlplane.MySQL:      "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			sqlplane.SQLite:     "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		},
		"select KEY, key_hash from t where a = ? and b = 'KEY?''NOW?' and c < AGO(?) and d >= NOW limit ?": {
			sqlplane.PostgreSQL: "select key, key_hash from t where a = $1 and b = 'KEY?''NOW?' and c < (statement_timestamp() - $2::bigint * interval '1 microsecond') and d >= statement_timestamp() limit $3",
			sqlplane.MySQL:      "select `key`, key_hash from t where a = ? and b = 'KEY?''NOW?' and c < (" + MySQLNow + " - ? div 1000) and d >= " + MySQLNow + " limit ?",
			sqlplane.SQLite:     "select key, key_hash from t where a = ? and b = 'KEY?''NOW?' and c < (" + SQLiteNow + " - ? / 1000) and d >= " + SQLiteNow + " limit ?",
		},
		"select a from t FOR UPDATE SKIP LOCKED": {
			sqlplane.PostgreSQL: "select a from t for update skip locked",
			sqlplane.MySQL:      "select a from t for update skip locked",
			sqlplane.SQLite:     "select a from t  ",
		},
		"select a from t FOR SHARE": {
			sqlplane.PostgreSQL: "select a from t for share",
			sqlplane.MySQL:      "select a from t lock in share mode",
			sqlplane.SQLite:     "select a from t ",
		},
		"insert into t (a, KEY) values (?, ?) KEEP(KEY)": {
			sqlplane.PostgreSQL: "insert into t (a, key) values ($1, $2) on conflict do nothing",
			sqlplane.MySQL:      "insert into t (a, `key`) values (?, ?) on duplicate key update `key` = `key`",
			sqlplane.SQLite:     "insert into t (a, key) values (?, ?) on conflict do nothing",
		},
		"insert into t (a, KEY, n) values (?, ?, 1) UPSERT(a, KEY) n = t.n + NEW(n)": {
			sqlplane.PostgreSQL: "insert into t (a, key, n) values ($1, $2, 1) on conflict (a, key) do update set n = t.n + excluded.n",
			sqlplane.MySQL:      "insert into t (a, `key`, n) values (?, ?, 1) on duplicate key update n = t.n + values(n)",
			sqlplane.SQLite:     "insert into t (a, key, n) values (?, ?, 1) on conflict (a, key) do update set n = t.n + excluded.n",
		},
	} {
		for d, want := range want {
			if got := Text(d, query); got != want {
				t.Errorf("%s: %q is\n%q, want\n%q", d, query, got, want)
			}
		}
	}
}
