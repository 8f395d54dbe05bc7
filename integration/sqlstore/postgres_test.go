package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// TestPostgreSQLRoundTrips counts on the wire. The claim and the record are one round trip
// each; at SERIALIZABLE the look-up is one more.
func TestPostgreSQLRoundTrips(t *testing.T) {
	t.Parallel()
	dsn := testenv.NewDatabase(t)
	server := testenv.SharedPostgres(t)
	proxy, err := faultnet.Listen(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	db, err := sqlstore.Open("pgx", strings.Replace(dsn, server.Addr(), proxy.Addr(), 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if err := sqlstore.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table effect (key text not null)")
	write := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into effect (key) values ('k')")
		return err
	}
	do := func(op once.Operation) func() error {
		op.Scope, op.Key = "trips", once.NewKey()
		return func() error {
			_, err := once.Do(t.Context(), once.New(s, once.Config{}), op, // an engine that has seen nothing
				func(ctx context.Context, tx *sql.Tx) (string, error) { return "", write(ctx, tx) })
			return err
		}
	}
	executed := func(op once.Operation) func() error { return func() error { return do(op)() } }
	var (
		plain, again = once.Operation{}, do(once.Operation{})
		strict       = once.Operation{Isolation: store.Serializable}
		strictAgain  = do(strict)
	)
	for _, c := range []struct {
		what string
		want int64
		run  func() error
	}{
		{"bare", 3, func() error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			if err := write(t.Context(), tx); err != nil {
				return err
			}
			return tx.Commit()
		}},
		{"executed", 5, executed(plain)},
		{"replayed", 3, again},
		{"executed at SERIALIZABLE", 6, executed(strict)},
		{"replayed at SERIALIZABLE", 1, strictAgain},
	} {
		var got int64
		for i := range 4 { // the first times prepare, and pgx asks a connection that was not used for a second whether it is there
			before := proxy.Stats().RoundTrips
			if err := c.run(); err != nil {
				t.Fatal(c.what, err)
			}
			if trips := proxy.Stats().RoundTrips - before; i == 0 || trips < got {
				got = trips
			}
		}
		if got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.what, got, c.want)
		}
	}
}
