package dialect

import (
	"testing"

	"github.com/oncelib/once/store"
)

// TestText: the text of each database. That they accept it and do the same is proved by
// package storetest, on all of them.
func TestText(t *testing.T) {
	for query, want := range map[string]map[store.Dialect]string{
		"select 1": {store.PostgreSQL: "select 1", store.MySQL: "select 1", store.SQLite: "select 1"},
		"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)": {
			store.PostgreSQL: "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
			store.MySQL:      "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			store.SQLite:     "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		},
		"select KEY, key_hash from t where a = ? and b = 'KEY?''NOW?' and c < AGO(?) and d >= NOW limit ?": {
			store.PostgreSQL: "select key, key_hash from t where a = $1 and b = 'KEY?''NOW?' and c < (statement_timestamp() - $2::bigint * interval '1 microsecond') and d >= statement_timestamp() limit $3",
			store.MySQL:      "select `key`, key_hash from t where a = ? and b = 'KEY?''NOW?' and c < (" + MySQLNow + " - ? div 1000) and d >= " + MySQLNow + " limit ?",
			store.SQLite:     "select key, key_hash from t where a = ? and b = 'KEY?''NOW?' and c < (" + SQLiteNow + " - ? / 1000) and d >= " + SQLiteNow + " limit ?",
		},
		"select a from t FOR UPDATE SKIP LOCKED": {
			store.PostgreSQL: "select a from t for update skip locked",
			store.MySQL:      "select a from t for update skip locked",
			store.SQLite:     "select a from t  ",
		},
		"select a from t FOR SHARE": {
			store.PostgreSQL: "select a from t for share",
			store.MySQL:      "select a from t lock in share mode",
			store.SQLite:     "select a from t ",
		},
		"insert into t (a, KEY) values (?, ?) KEEP(KEY)": {
			store.PostgreSQL: "insert into t (a, key) values ($1, $2) on conflict do nothing",
			store.MySQL:      "insert into t (a, `key`) values (?, ?) on duplicate key update `key` = `key`",
			store.SQLite:     "insert into t (a, key) values (?, ?) on conflict do nothing",
		},
		"insert into t (a, KEY, n) values (?, ?, 1) UPSERT(a, KEY) n = t.n + NEW(n)": {
			store.PostgreSQL: "insert into t (a, key, n) values ($1, $2, 1) on conflict (a, key) do update set n = t.n + excluded.n",
			store.MySQL:      "insert into t (a, `key`, n) values (?, ?, 1) on duplicate key update n = t.n + values(n)",
			store.SQLite:     "insert into t (a, key, n) values (?, ?, 1) on conflict (a, key) do update set n = t.n + excluded.n",
		},
	} {
		for d, want := range want {
			if got := Text(d, query); got != want {
				t.Errorf("%s: %q is\n%q, want\n%q", d, query, got, want)
			}
		}
	}
}
