package sqlstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// TestABusyDatabaseIsNotDown is TestALockIsNoOutage for PostgreSQL, where an operator has locked the table, and
// for SQLite, where another process writes.
func TestABusyDatabaseIsNotDown(t *testing.T) {
	testenv.Prove(t)
	op := once.Operation{Scope: "s", Key: "new", Timeouts: store.Timeouts{Lock: 100 * time.Millisecond}}
	paths := map[string]func(ctx context.Context, b beside) error{
		"a claim": func(ctx context.Context, b beside) error { return b.do(ctx, op) },
		"a join":  func(ctx context.Context, b beside) error { return b.join(ctx, op) },
		"a swap": func(ctx context.Context, b beside) error {
			return b.swap(ctx, store.Expect{}, store.ID{Scope: "s", Key: "swapped"})
		},
		"a renewal": renewHeld,
		"a sweep":   func(ctx context.Context, b beside) error { return b.sweep(ctx, nil) },
		"a look-up": func(ctx context.Context, b beside) error {
			_, err := b.s.Read(ctx, store.ID{Scope: "s", Key: "done"})
			return err
		},
	}
	for _, name := range []string{harness.SQLite, harness.Group, harness.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := newSource(t, name)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // nothing waits for that long
			defer cancel()
			lock := "begin immediate"
			if src.driver == "pgx" {
				src.dsn += "&lock_timeout=100"
				lock = "begin; lock table once_operation in access exclusive mode"
			} else {
				src.dsn = strings.Replace(src.dsn, "busy_timeout(60000)", "busy_timeout(1000)", 1)
			}
			b := openBeside(ctx, t, src)
			other, err := openBeside(ctx, t, src).db.Conn(ctx) // as another process has it
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			run(t, b.db, "insert into once_operation (scope, key, state, claim, since, expires_at) select 's', 'expired', state, claim, since, since from once_operation where key = 'done'")
			run(t, other, lock)
			for name, path := range paths {
				if name == "a look-up" && src.driver == "sqlite" {
					continue // does not wait
				}
				if err := path(ctx, b); store.KindOf(err) != store.KindBusy || once.CodeOf(err) != "" && once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%s: %v, want kind %q", name, err, store.KindBusy)
				}
			}
			run(t, other, "rollback")
			for name, path := range paths {
				if err := path(ctx, b); err != nil {
					t.Errorf("%s, after the lock: %v", name, err)
				}
			}
		})
	}
}

// openBeside opens a store on what may have one, with an operation that is done and one that is held.
func openBeside(ctx context.Context, t *testing.T, src source) beside {
	t.Helper()
	db, err := sqlstore.Open(src.driver, src.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table if not exists effect (name varchar(100) not null)")
	s, err := sqlstore.New(ctx, db, src.config)
	if err != nil {
		t.Fatal(err)
	}
	b := beside{db, s}
	if rec, err := s.Read(ctx, store.ID{Scope: "s", Key: "held"}); err != nil || rec.State == store.StateAbsent {
		prepareBeside(ctx, t, b)
	}
	return b
}
