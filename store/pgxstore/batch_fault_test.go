package pgxstore_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// lossy is a database whose connections break while a batch is on its way.
type lossy struct {
	direct *pgxpool.Pool
	mu     sync.Mutex
	told   map[string]int
}

// truthful holds what was told against the database, and has a clean client ask again.
func (l *lossy) truthful(t *testing.T, point string, op once.Operation, r once.Result[charge], err error) {
	t.Helper()
	ctx := context.Background()
	applied := count(t, l.direct, "select count(*) from charge where id like $1", op.Key+"%")
	record := count(t, l.direct, "select count(*) from once_operation where key = $1", op.Key)
	what := fmt.Sprintf("%s, applied %d", once.EffectOf(err), applied)
	if err == nil {
		what = "answered"
	}
	l.mu.Lock()
	l.told[what]++
	l.mu.Unlock()
	switch {
	case record != applied || applied > 1:
		t.Errorf("%s: %d effects, %d records", point, applied, record)
	case err == nil && applied != 1:
		t.Errorf("%s: answered, and not applied", point)
	case err != nil && once.EffectOf(err) == once.EffectNotApplied && applied != 0:
		t.Errorf("%s: applied, and told %v", point, err)
	case err != nil && once.CodeOf(err) != once.CodeUnavailable:
		t.Errorf("%s: %v", point, err)
	}
	again, err2 := once.DoBatch(ctx, engineOn(l.direct), op, declare(op.Key+"-again"))
	if err2 != nil || again.Replayed != (applied == 1) || err == nil && again.Value != r.Value {
		t.Errorf("%s: told %+v, %v; asked again: %+v, %v", point, r, err, again, err2)
	}
	if n := count(t, l.direct, "select count(*) from charge where id like $1", op.Key+"%"); n != 1 {
		t.Errorf("%s: %d effects in the end", point, n)
	}
}

// no server answers there.
const nobody = "127.0.0.1:1"

// TestBatchIsCut cuts the connection at every byte of the batch and of its answer, and has
// every write and read fail, with a network that heals at once and with one that does not.
func TestBatchIsCut(t *testing.T) {
	for mode, configure := range map[string]func(*pgxpool.Config){"prepared": modes["prepared"], "exec": modes["exec"]} {
		for _, heals := range []bool{true, false} {
			for _, runs := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/heals=%v/runs=%d", mode, heals, runs), func(t *testing.T) {
					t.Parallel()
					cutEverywhere(t, configure, heals, runs)
				})
			}
		}
	}
}

func cutEverywhere(t *testing.T, configure func(*pgxpool.Config), heals bool, runs int) {
	ctx := context.Background()
	l := &lossy{direct: openPool(t), told: map[string]int{}}
	server := l.direct.Config().ConnConfig
	address := fmt.Sprintf("%s:%d", server.Host, server.Port)
	proxy, err := faultnet.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	settle := 20 * time.Second
	if !heals {
		settle = 100 * time.Millisecond
	}
	// strike runs one batch on a warm connection and reports whether the fault has struck.
	strike := func(point string, arm func(*faultnet.Wire) (struck func() bool)) bool {
		var wire faultnet.Wire
		cfg := l.direct.Config()
		cfg.MaxConns = 1
		cfg.ConnConfig.RuntimeParams["application_name"] = "cut"
		configure(cfg)
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return wire.DialContext(ctx, network, proxy.Addr())
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: runs, Settle: settle})
		for range 2 {
			warm := once.NewKey()
			if _, err := once.DoBatch(ctx, engineOn(pool), once.Operation{Scope: "warm", Key: warm}, declare("warm"+warm)); err != nil {
				t.Fatal(err)
			}
		}
		if !heals {
			proxy.SetUpstream(nobody)
		}
		struck := arm(&wire)
		op := once.Operation{Scope: "cut", Key: once.NewKey()}
		r, err := once.DoBatch(ctx, e, op, declare(op.Key))
		proxy.Disarm()
		proxy.SetUpstream(address)
		pool.Close()
		for deadline := time.Now().Add(time.Minute); ; { // what the server has received it will do
			n := count(t, l.direct, "select count(*) from pg_stat_activity where application_name = 'cut' and datname = current_database()")
			if n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d sessions of what was cut do not end", point, n)
			}
		}
		l.truthful(t, point, op, r, err)
		return struck()
	}
	points := map[string]int{}
	step := int64(61)
	if testing.Short() {
		step = 101
	}
	for name, fault := range map[string]func(int64) faultnet.Fault{"sent": faultnet.CutAfterClientBytes, "received": faultnet.CutAfterServerBytes} {
		for n := int64(1); strike(fmt.Sprint(name, " ", n), func(*faultnet.Wire) func() bool {
			trigger := proxy.Arm(fault(n))
			return func() bool { return trigger.Count() > 0 }
		}); n += step {
			points[name]++
			if n > 5000 { // settling goes on being cut where it heals: the batch is over by far
				break
			}
		}
	}
	for name, before := range map[string]func(*faultnet.Wire, int64, func(*faultnet.Conn)){
		"write": (*faultnet.Wire).BeforeWrite, "read": (*faultnet.Wire).BeforeRead,
	} {
		for n := int64(1); strike(fmt.Sprint(name, " ", n), func(w *faultnet.Wire) func() bool {
			var hit atomic.Bool // a request to cancel runs on its own, and may outlive the batch
			w.Reset()
			before(w, n, func(c *faultnet.Conn) { hit.Store(true); faultnet.CloseConn(c) })
			return hit.Load
		}); n++ {
			points[name]++
			if n > 50 {
				t.Fatal("no end after 50 points")
			}
		}
	}
	t.Logf("cut at %v; told %v", points, l.told)
	for name, least := range map[string]int{"sent": 4, "received": 1, "write": 1, "read": 1} {
		if points[name] < least {
			t.Errorf("vacuous: %q was met at %d points", name, points[name])
		}
	}
	must := []string{"answered"}
	if !heals {
		must = append(must, "in doubt, applied 0", "in doubt, applied 1")
	} else if runs == 1 {
		must = append(must, "in doubt, applied 0")
	}
	for _, m := range must {
		if l.told[m] == 0 {
			t.Errorf("vacuous: none was %s", m)
		}
	}
}

// TestBatchThatComesLate has a batch reach the server after its client has given up on it and asked
// for it: the database, asked between the two, has nothing. What is told must stay true.
func TestBatchThatComesLate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, runs := range []int{1, 3} {
		pool := openPool(t)
		late := &held{Store: pgxstore.New(pool, pgxstore.Config{})}
		e := once.New[pgx.Tx](late, once.Config{Runs: runs})
		op := once.Operation{Scope: "late", Key: "k"}
		r, err := once.DoBatch(ctx, e, op, declare("late"))
		if runs == 1 && (once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectInDoubt) || runs > 1 && err != nil {
			t.Errorf("%d runs: %+v, %v", runs, r, err)
		}
		came := late.deliver(ctx)
		if applied := store.KindOf(came) != store.KindTaken; applied != (runs == 1) || applied && came != nil {
			t.Errorf("%d runs: delivered late: %v", runs, came)
		}
		again, err := once.DoBatch(ctx, engineOn(pool), op, declare("again"))
		if err != nil || !again.Replayed || again.Value.ID != "late" {
			t.Errorf("%+v, %v", again, err)
		}
		if n := count(t, pool, "select count(*) from charge"); n != 1 {
			t.Errorf("%d effects", n)
		}
	}
}

// TestBatchThatFailsAfterALateOne: an error of the second run is no proof while the first
// one may yet come.
func TestBatchThatFailsAfterALateOne(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	seen := new(events)
	late := &held{Store: pgxstore.New(pool, pgxstore.Config{})}
	e := once.New[pgx.Tx](late, once.Config{Observer: seen})
	runs := 0
	_, err := once.DoBatch(ctx, e, once.Operation{Scope: "late", Key: "k"}, func(b *once.Batch) (charge, error) {
		if runs++; runs > 1 {
			b.ExecRows(1, "update account set balance = 0 where id = -1")
		}
		return declare("late")(b)
	})
	if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectInDoubt || runs != 2 {
		t.Errorf("%d runs: %v", runs, err)
	}
	for _, e := range seen.seen {
		if e == once.EventSettled {
			t.Error("said to be settled")
		}
	}
	if err := late.deliver(ctx); err != nil {
		t.Error(err)
	}
}

// held keeps its first batch on the way.
type held struct {
	store.Store[pgx.Tx]
	txn    store.Transaction[pgx.Tx]
	change store.Change
}

func (h *held) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[pgx.Tx], store.Record, error) {
	txn, rec, err := h.Store.Begin(ctx, ask)
	if h.txn == nil && txn != nil {
		h.txn = txn
		return slow{txn, h}, rec, err
	}
	return txn, rec, err
}

func (h *held) deliver(ctx context.Context) error { return h.txn.Commit(ctx, h.change) }

type slow struct {
	store.Transaction[pgx.Tx]
	h *held
}

func (s slow) Unwrap() any { return s.Transaction }

func (s slow) Commit(_ context.Context, c store.Change) error {
	s.h.change = c
	return &store.Error{Kind: store.KindLost, Err: context.DeadlineExceeded}
}

// TestBatchOnABrokenConnection: one that broke while it was idle fails nothing.
func TestBatchOnABrokenConnection(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 4 })
	e := engineOn(pool)
	// together runs four batches, each of which has a connection before any of them goes on.
	together := func(when string) {
		var group, inside sync.WaitGroup
		inside.Add(4)
		for range 4 {
			group.Go(func() {
				enter := sync.OnceFunc(inside.Done)
				defer enter()
				key := once.NewKey()
				r, err := once.DoBatch(ctx, e, once.Operation{Scope: "broken", Key: key}, func(b *once.Batch) (charge, error) {
					enter()
					inside.Wait()
					return declare(key)(b)
				})
				if err != nil || r.Replayed {
					t.Errorf("%s: %+v, %v", when, r, err)
				}
			})
		}
		group.Wait()
	}
	together("before")
	conn, err := pgx.Connect(ctx, pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for range 2 { // connections that know the statements, and new ones
		var n int
		if err := conn.QueryRow(ctx, "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()").Scan(&n); err != nil || n < 4 {
			t.Fatal(n, err)
		}
		together("after")
	}
}
