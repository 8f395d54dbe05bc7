package pgxstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// on has the sessions of a pool on a new database use what create makes, by their search path.
func on(tb testing.TB, create, path string) func(*pgxpool.Config) {
	tb.Helper()
	return func(c *pgxpool.Config) {
		conn, err := pgx.ConnectConfig(context.Background(), c.ConnConfig)
		if err != nil {
			tb.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), create); err != nil {
			tb.Fatal(err)
		}
		c.ConnConfig.RuntimeParams["search_path"] = path
	}
}

// claimsByCommit reports how the operations of s are claimed.
func claimsByCommit(tb testing.TB, s *pgxstore.Store, opts store.BeginOptions) bool {
	tb.Helper()
	opts.ID = store.ID{Scope: "s", Key: once.NewKey()}
	txn, _, err := s.Begin(context.Background(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	if err := txn.Rollback(context.Background()); err != nil {
		tb.Error(err)
	}
	c, _ := store.As[store.CommitClaimer](txn)
	return c.ClaimsByCommit()
}

// TestAServerWithoutLocks: on a server that accepts advisory locks and does nothing, operations are claimed by their commits,
// whatever is asked first and with one connection, and the log says so once for each Store. No statement needs a ctid.
func TestAServerWithoutLocks(t *testing.T) { // not parallel: the log is that of the process
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	texts := &textRecorder{}
	pool := openPool(t, on(t, testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath), func(c *pgxpool.Config) {
		c.MaxConns, c.ConnConfig.Tracer = 1, texts
	})
	for name, opts := range map[string]store.BeginOptions{"Do": {}, "a first attempt": {First: true}, "serializable": {Isolation: store.Serializable}} {
		log.Reset()
		s := pgxstore.New(pool, pgxstore.Config{})
		for range 2 {
			if !claimsByCommit(t, s, opts) {
				t.Errorf("%s: the transaction counts as one that holds a claim", name)
			}
		}
		if n := strings.Count(log.String(), "keeps no advisory locks"); n != 1 || !strings.Contains(log.String(), "server=\"PostgreSQL ") {
			t.Errorf("%s: said %d times: %s", name, n, log.String())
		}
	}
	for _, archive := range []func(context.Context, []upkeep.Expired) error{nil, func(context.Context, []upkeep.Expired) error { return nil }} {
		s := pgxstore.New(pool, pgxstore.Config{}) // which sweeps and does nothing else
		expired := store.Change{ID: store.ID{Scope: "s", Key: once.NewKey()}, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: make([]byte, 16)}, Retain: 1}
		if _, err := s.Swap(t.Context(), expired); err != nil {
			t.Fatal(err)
		}
		texts.reset()
		if swept, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 10, Archive: archive}); err != nil || swept.Rows != 1 {
			t.Errorf("Sweep: %+v, %v", swept, err)
		}
		if all := texts.all(); !strings.Contains(all, "delete from once_operation") || strings.Contains(all, "ctid") {
			t.Errorf("the sweep has sent: %s", all)
		}
	}
}

// TestLocksThatAreNotListed: a server may keep advisory locks and have no pg_locks. What decides is a second session.
func TestLocksThatAreNotListed(t *testing.T) {
	t.Parallel()
	pool := openPool(t, on(t, testenv.UnlistedLocks, testenv.UnlistedLocksPath), func(c *pgxpool.Config) { c.MaxConns = 1 })
	if claimsByCommit(t, pgxstore.New(pool, pgxstore.Config{}), store.BeginOptions{}) {
		t.Error("a lock that is kept counts as one that is not")
	}
}

// TestOperationsShareTheProbe: operations that begin together open two sessions to find out about locks, and no more.
func TestOperationsShareTheProbe(t *testing.T) {
	t.Parallel()
	const calls = 8
	var opened atomic.Int64
	pool := openPool(t, on(t, testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath), func(c *pgxpool.Config) {
		c.MaxConns = calls
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { opened.Add(1); return nil }
	})
	s := pgxstore.New(pool, pgxstore.Config{})
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if !claimsByCommit(t, s, store.BeginOptions{}) {
				t.Error("the transaction counts as one that holds a claim")
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n > calls+2 {
		t.Errorf("%d connections were opened, %d of them for the pool", n, pool.Stat().NewConnsCount())
	}
}

// TestALockThatIsLostLater: locks that the server stops keeping, behind the store's back, cost an answer of "in flight" and
// nothing else: of two handlers that run at a time one commits, at every level, and both callers have its answer.
func TestALockThatIsLostLater(t *testing.T) {
	t.Parallel()
	pool := openPool(t, on(t, "create schema without_locks", testenv.WithoutAdvisoryLocksPath))
	stores := [2]*pgxstore.Store{pgxstore.New(pool, pgxstore.Config{}), pgxstore.New(pool, pgxstore.Config{})}
	for _, s := range stores {
		if claimsByCommit(t, s, store.BeginOptions{}) {
			t.Fatal("the locks are kept so far")
		}
	}
	if _, err := pool.Exec(t.Context(), strings.Replace(testenv.WithoutAdvisoryLocks, "create schema without_locks;", "", 1)); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // sessions that are prepared know the functions of before
	for _, level := range []store.Isolation{store.ReadCommitted, store.RepeatableRead, store.Serializable} {
		for _, attempt := range []int{0, 1} {
			op := once.Operation{Scope: "s", Key: once.NewKey(), Isolation: level, Attempt: once.Attempt{Number: attempt}}
			both := make(chan struct{})
			var entered, executed, replayed atomic.Int64
			var values sync.Map
			var all sync.WaitGroup
			for _, s := range stores {
				all.Go(func() {
					r, err := once.Do(t.Context(), once.New(s, once.Config{}), op, func(ctx context.Context, tx pgx.Tx) (string, error) {
						id := once.NewKey()
						if _, err := tx.Exec(ctx, "insert into charge values ($1, 1)", op.Key+id); err != nil {
							return "", err
						}
						if entered.Add(1) == 2 {
							close(both)
						}
						select {
						case <-both:
						case <-ctx.Done():
						}
						return id, nil
					})
					switch values.Store(r.Value, true); {
					case err != nil:
						t.Errorf("level %d, attempt %d: %v", level, attempt, err)
					case r.Replayed:
						replayed.Add(1)
					default:
						executed.Add(1)
					}
				})
			}
			all.Wait()
			if executed.Load() != 1 || replayed.Load() != 1 {
				t.Errorf("level %d, attempt %d: executed %d, replayed %d", level, attempt, executed.Load(), replayed.Load())
			}
			distinct := 0
			values.Range(func(any, any) bool { distinct++; return true })
			if n := count(t, pool, "select count(*) from charge where id like $1", op.Key+"%"); n != 1 || distinct != 1 {
				t.Errorf("level %d, attempt %d: %d charges, %d answers", level, attempt, n, distinct)
			}
		}
	}
}

// TestMigrationsTogetherWithoutLocks: a node that migrates while another one has not committed yet, on a server without
// advisory locks, finds the tables of that one and succeeds.
func TestMigrationsTogetherWithoutLocks(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	on(t, testenv.WithoutAdvisoryLocks, testenv.WithoutAdvisoryLocksPath)(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	list, err := migration.All(sqlplane.PostgreSQL, migration.Operation)
	if err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	err = pgx.BeginFunc(t.Context(), pool, func(other pgx.Tx) error {
		for _, m := range list {
			for _, text := range []string{m.SQL, m.Noted()} {
				if _, err := other.Exec(t.Context(), text); err != nil {
					return err
				}
			}
		}
		go func() { migrated <- pgxstore.Migrate(t.Context(), pool) }()
		for count(t, pool, "select count(*) from pg_stat_activity a join pg_locks l using (pid) where a.datname = current_database() and not l.granted") == 0 {
			continue
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// TestTheProbeIsSentOnce: no operation but the first pays for it.
func TestTheProbeIsSentOnce(t *testing.T) {
	t.Parallel()
	texts := &textRecorder{}
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, texts })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for range 3 {
		if _, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, insertCharge(once.NewKey())); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(texts.all(), "pg_locks"); n != 1 {
		t.Errorf("%d probes: %s", n, texts.all())
	}
}

// textRecorder is a tracer that has the texts of all statements.
type textRecorder struct {
	quiet
	mu    sync.Mutex
	texts []string
}

func (r *textRecorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = nil
}

func (r *textRecorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.texts, "\n")
}

func (r *textRecorder) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

func (r *textRecorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.add(d.SQL)
	return ctx
}

func (r *textRecorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	r.add(d.SQL)
}
