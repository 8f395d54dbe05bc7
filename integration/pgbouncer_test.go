package integration

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestPgBouncer runs behind PgBouncer in transaction mode, where each transaction may
// meet another session, and nothing of a session may be relied on after its end.
func TestPgBouncer(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "pgbouncer")
	for _, c := range []struct{ store, mode string }{
		{harness.Pgx, "exec"},
		{harness.Pgx, "simple_protocol"},
		{harness.Postgres, "exec"},
		{harness.Postgres, "simple_protocol"},
	} {
		t.Run(c.store+"/"+c.mode, func(t *testing.T) {
			harness.Cell(t, c.store == harness.Pgx)
			t.Parallel()
			g := newTestDB(t, c.store)
			u, err := url.Parse(g.DSN)
			if err != nil {
				t.Fatal(err)
			}
			pooler, err := testenv.StartPgBouncer(t.Context(), testenv.SharedPostgres(t), strings.TrimPrefix(u.Path, "/"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pooler.Close() })
			s := g.open(t, setup{dsn: pooler.URL() + "&default_query_exec_mode=" + c.mode, conns: 32})
			behindPooler(t, g, s)
		})
	}
}

func behindPooler(t *testing.T, g *testDB, s system) {
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	for _, flow := range []string{flowDo, flowFailure, flowJoin, flowBatch} {
		everyCall(ctx, t, g, s, flow, operation("pooled-"+flow))
		serializable := operation("pooled-serializable-" + flow)
		serializable.Isolation = store.Serializable
		everyCall(ctx, t, g, s, flow, serializable)
	}
	duplicates(ctx, t, g, s)
}

// everyCall executes an operation, replays it and is refused another one of its key.
func everyCall(ctx context.Context, t *testing.T, g *testDB, s system, flow string, op once.Operation) {
	t.Helper()
	key := op.Key
	for i := range 3 {
		got, err := run(ctx, s, flow, op, work{key: key, attempt: fmt.Sprint(i)})
		if err != nil || got.Attempt != "0" {
			t.Fatalf("%s, call %d: %+v, %v", flow, i, got, err)
		}
	}
	changed := op
	changed.Fingerprint = once.FingerprintOf([]byte("something else"))
	if _, err := run(ctx, s, flow, changed, work{key: key, attempt: "changed"}); once.CodeOf(err) != once.CodeMismatch {
		t.Fatalf("%s with another body: %v", flow, err)
	}
	want := executed("0")
	if flow == flowFailure {
		want = declined()
	}
	if got, err := g.state(ctx, key); err != nil || got != want {
		t.Fatalf("%s: the database has %+v, %v, want %+v", flow, got, err, want)
	}
}

// duplicates has 24 engines ask for the same keys at the same time.
func duplicates(ctx context.Context, t *testing.T, g *testDB, s system) {
	const engines = 24
	keys := scale(40, 1000)
	var inFlight atomic.Int64
	answers := make([]map[string]answer, engines)
	var group sync.WaitGroup
	for i := range engines {
		answers[i] = map[string]answer{}
		own := s.Another()
		group.Go(func() {
			for n := range keys {
				op := operation(fmt.Sprintf("duplicate-%d", n))
				w := work{key: op.Key, attempt: fmt.Sprint("engine", i)}
				ask := own.Do
				if i%3 == 0 {
					ask = own.Batch
				}
				got, _, err := ask(ctx, op, w)
				if once.CodeOf(err) == once.CodeInFlight {
					inFlight.Add(1)
					op.Wait = patience
					got, _, err = ask(ctx, op, w)
				}
				if err != nil {
					t.Errorf("key %s: %v. %s", op.Key, err, rerun(t))
					return
				}
				answers[i][op.Key] = got
			}
		})
	}
	group.Wait()
	for key, first := range answers[0] {
		for _, others := range answers {
			if others[key] != first {
				t.Errorf("key %s: answers %+v and %+v. %s", key, first, others[key], rerun(t))
			}
		}
		if got, err := g.state(ctx, key); err != nil || got != executed(first.Attempt) {
			t.Errorf("key %s, answer %+v: the database has %+v, %v. %s", key, first, got, err, rerun(t))
		}
	}
	t.Logf("%d keys, %d duplicates of each, %d in flight", keys, engines, inFlight.Load())
	if inFlight.Load() == 0 && !t.Failed() {
		t.Errorf("no duplicate was ever in flight. %s", rerun(t))
	}
}
