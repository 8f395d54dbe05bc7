package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

// TestATextOfSeveralStatementsIsRefused on connections that take several in a packet for once: in a handler, and also outside unless the data
// source name of the user asks for it. What a text is depends on the sql_mode, so the server is asked.
func TestATextOfSeveralStatementsIsRefused(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		const evil = "x'; delete from effect; -- \\"
		for mode, texts := range map[string]map[string]bool{ // by the text, whether it is one statement
			"": {
				"insert into effect values ('a'); delete from effect":           false,
				"insert into effect values ('\\'; delete from effect; -- ')":    true,
				"insert into effect values ('a;b')":                             true,
				"/* ; */ insert into effect values ('a') ;":                     true,
				"insert into effect values (\"\\\"; delete from effect; -- \")": true,
			},
			"sql_mode=%27ANSI_QUOTES,NO_BACKSLASH_ESCAPES%27": {
				"insert into effect values ('\\'); delete from effect; -- ')": false,
				"insert into effect values ('a;b')":                           true,
			},
		} {
			for _, own := range []bool{false, true} { // the user asks for several
				dsn := on.created(t) + "?" + mode
				if own {
					dsn += "&multiStatements=true"
				}
				db, err := sqlstore.Open("mysql", dsn)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = db.Close() }()
				if err := sqlstore.Migrate(ctx, db); err != nil {
					t.Fatal(err)
				}
				run(t, db, "create table effect (name varchar(100) not null)", "insert into effect values ('kept')")
				s, err := sqlstore.New(ctx, db, sqlstore.Config{})
				if err != nil {
					t.Fatal(err)
				}
				rows := 1
				for text, isOne := range texts {
					handler := func(ctx context.Context, tx *sql.Tx) (int, error) {
						_, err := tx.ExecContext(ctx, text)
						return 1, err
					}
					_, err := once.Do(ctx, once.New(s, once.Config{}), once.Operation{Scope: "several", Key: text}, handler)
					if (err == nil) != isOne {
						t.Errorf("%s %q in a handler: %v", mode, text, err)
					}
					if isOne {
						rows++
					}
					if n := count(t, db, "select count(*) from effect"); n != rows {
						t.Fatalf("%s %q in a handler: %d rows, want %d", mode, text, n, rows)
					}
					if own {
						continue
					}
					if _, err := db.ExecContext(ctx, text); (err == nil) != isOne {
						t.Errorf("%s %q: %v", mode, text, err)
					}
					if isOne {
						rows++
					}
					if n := count(t, db, "select count(*) from effect"); n != rows {
						t.Fatalf("%s %q: %d rows, want %d", mode, text, n, rows)
					}
				}
				for _, replayed := range []bool{false, true} { // the second time, the record must be there
					r, err := once.DoBatch(ctx, once.New(s, once.Config{}), once.Operation{Scope: "several", Key: "batch"}, func(b *once.Batch) (int, error) {
						b.ExecRows(1, "insert into effect values (?)", evil)
						b.Exec("insert into effect values (?) -- to the end of the line", evil)
						return 1, nil
					})
					if n := count(t, db, fmt.Sprintf("select count(*) from effect where name = x'%x'", evil)); n != 2 || err != nil || r.Replayed != replayed {
						t.Errorf("%s: %d rows of an argument, replayed %t, %v", mode, n, r.Replayed, err)
					}
				}
			}
		}
	})
}
