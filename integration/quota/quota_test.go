package quota

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

const (
	size   = upkeep.RecordSize + 10_000 // what an answer takes, about
	answer = 10_000
	effect = "create table effect (account varchar(20) not null)"
)

// node is a process of the service, with its pool, its engine and its quota.
type node struct {
	*httptest.Server

	db    sqlplane.Database
	ops   store.Operations
	quota *limit.Quota
	held  atomic.Pointer[hold] // holds look-ups of acme
	stop  func()
}

// hold holds look-ups until it is released.
type hold struct{ reached, release chan struct{} }

// slow is a store whose look-ups can be held.
type slow[TX any] struct {
	harness.Store[TX]

	n *node
}

func (s slow[TX]) Unwrap() any { return s.Store }

// Read implements store.Operations.
func (s slow[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if h := s.n.held.Load(); h != nil && strings.HasPrefix(id.Scope, "acme ") {
		h.reached <- struct{}{}
		<-h.release
	}
	return s.Store.Read(ctx, id)
}

// start starts a process that counts so often.
func start(t *testing.T, d harness.Database, every time.Duration) *node {
	t.Helper()
	if d.Kind == harness.Pgx {
		s, pool := harness.OpenPgx(t, d)
		n := serve(t, s, every)
		n.stop = func() { n.Close(); pool.Close() }
		return n
	}
	s, db := harness.OpenSQL(t, d)
	n := serve(t, s, every)
	n.stop = func() { n.Close(); _ = db.Close() }
	return n
}

func serve[TX any](t *testing.T, s harness.Store[TX], every time.Duration) *node {
	t.Helper()
	n := &node{db: s, ops: s}
	e := once.New(slow[TX]{s, n}, once.Config{Observer: once.Discard})
	n.quota = limit.NewQuota(e.Store(), limit.QuotaConfig{Bytes: 5 * size, Every: every})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.quota.Run(ctx) }()
	account := func(r *http.Request) string { return r.Header.Get("Account") }
	n.Server = httptest.NewServer(oncehttp.Handler(e, oncehttp.Config{Principal: account, Quota: n.quota}, func(w http.ResponseWriter, r *http.Request, tx TX) {
		if _, err := s.On(tx).Exec(r.Context(), harness.Text(s, "insert into effect (account) values (?)", account(r))); err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(make([]byte, answer))
	}))
	n.Config.RegisterOnShutdown(func() { cancel(); <-ended })
	t.Cleanup(n.Close)
	harness.Until(t, func() error { // the first count is over
		if got := n.largest(t); got <= 0 {
			return fmt.Errorf("the largest principal has %v bytes", got)
		}
		return nil
	})
	return n
}

// largest is what the largest principal has stored, as this process knows it.
func (n *node) largest(t *testing.T) float64 {
	t.Helper()
	values, err := n.quota.Gauges(t.Context())
	must(t, err)
	for _, v := range values {
		if v.Name == gaugename.QuotaLargestBytes {
			return v.Number
		}
	}
	return 0
}

// post sends a request of an account.
func (n *node) post(t *testing.T, account, key string) (resp *http.Response, problem oncehttp.Problem) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+"/spend", strings.NewReader("x"))
	must(t, err)
	r.Header.Set("Account", account)
	r.Header.Set("Idempotency-Key", key)
	resp, err = n.Client().Do(r)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		var said struct {
			Code      oncehttp.ProblemCode
			Retryable bool
		}
		must(t, json.NewDecoder(resp.Body).Decode(&said))
		problem.Code, problem.Retryable = said.Code, said.Retryable
	}
	return resp, problem
}

// refuses expects that a new operation is refused, to come again in least to most seconds.
func (n *node) refuses(t *testing.T, what, account, key string, least, most int) {
	t.Helper()
	resp, p := n.post(t, account, key)
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != http.StatusTooManyRequests || p.Code != "RATE_LIMIT.stored_bytes" || !p.Retryable || err != nil || after < least || after > most {
		t.Errorf("%s: %d, %+v, again after %q", what, resp.StatusCode, p, resp.Header.Get("Retry-After"))
	}
}

// answers expects an answer that was executed now, or is a replay.
func (n *node) answers(t *testing.T, what, account, key, status string) {
	t.Helper()
	if resp, p := n.post(t, account, key); resp.StatusCode != http.StatusCreated || resp.Header.Get("Idempotency-Status") != status {
		t.Errorf("%s: %d %q, %+v", what, resp.StatusCode, resp.Header.Get("Idempotency-Status"), p)
	}
}

// effects are the operations of an account that were executed.
func (n *node) effects(t *testing.T, account string) int {
	t.Helper()
	return harness.Count(t, n.db, "select count(*) from effect where account = ?", account)
}

// A count refuses for three times as long: a busy machine has time for the next one.
const often = 2 * time.Second

// TestQuotaRefusesOnlyItsPrincipal: on real databases, a principal that has its quota stored begins nothing new at any process, also after a restart, and is answered for what it has
// begun. Another principal is neither refused nor delayed. When answers of it were swept or forgotten it goes on.
func TestQuotaRefusesOnlyItsPrincipal(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.All, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, []migration.Set{operate.Migrations, attemptlog.Migrations}, effect)
		seed(t, d)
		one, other := start(t, d, often), start(t, d, often)
		for made := 0; made < 5; { // a count that is under way may refuse too early
			resp, _ := one.post(t, "acme", fmt.Sprint(made))
			if resp.StatusCode == http.StatusCreated {
				made++
			}
		}
		one.refuses(t, "the process that has executed", "acme", "new", 1, 2)
		harness.Until(t, func() error {
			if got := other.largest(t); got < 5*size {
				return fmt.Errorf("the other process has counted %v", got)
			}
			return nil
		})
		other.refuses(t, "the other process", "acme", "new", 1, 2)
		for _, n := range []*node{one, other} {
			n.answers(t, "a replay", "acme", "0", "replayed")
			n.answers(t, "a replay", "acme", "4", "replayed")
		}
		undisturbed(t, one, other)
		if got := one.effects(t, "acme"); got != 5 {
			t.Errorf("acme had room for 5 answers and has executed %d operations", got)
		}

		one.stop()
		other.stop()
		rare := start(t, d, time.Hour)
		rare.refuses(t, "after a restart", "acme", "new", 60, 3600)
		rare.answers(t, "a replay after a restart", "acme", "0", "replayed")
		again := start(t, d, often)
		again.refuses(t, "after a restart", "acme", "new", 1, 2)
		harness.Exec(t, again.db, "update once_operation set expires_at = since where scope like 'acme %'")
		if n, err := retention.New(again.ops, retention.Config{}).Sweep(t.Context()); n != 5 || err != nil {
			t.Fatalf("%d operations were swept, %v", n, err)
		}
		again.goesOn(t, "swept")

		for made := 1; made < 5; {
			if resp, _ := again.post(t, "acme", fmt.Sprint("later ", made)); resp.StatusCode == http.StatusCreated {
				made++
			}
		}
		again.refuses(t, "full again", "acme", "new", 1, 2)
		must(t, d.Use(t.Context(),
			func(s harness.Store[pgx.Tx]) error { return forget(t.Context(), s) },
			func(s harness.Store[*sql.Tx]) error { return forget(t.Context(), s) }))
		again.goesOn(t, "forgotten")
		if resp, p := again.post(t, "acme", "later 1"); resp.StatusCode != http.StatusConflict {
			t.Errorf("a retry of what was forgotten: %d, %+v", resp.StatusCode, p)
		}
		if got := again.effects(t, "acme"); got != 11 {
			t.Errorf("%d operations of acme were executed, want 11", got)
		}
	})
}

// forget has an operator forget what acme has stored later.
func forget[TX any](ctx context.Context, s harness.Store[TX]) error {
	keys := operate.New(s, operate.Config{}).Keys
	for made := 1; made < 5; made++ {
		_, err := keys.Forget(ctx, operate.By{Who: "ada", Reason: "test"}, operate.ForgetRequest{Scope: "acme POST /spend", Key: fmt.Sprint("later ", made)})
		if err != nil {
			return err
		}
	}
	return nil
}

// goesOn expects that a principal which was refused is executed after some count, once.
func (n *node) goesOn(t *testing.T, key string) {
	t.Helper()
	harness.Until(t, func() error {
		if resp, p := n.post(t, "acme", key); resp.StatusCode != http.StatusCreated {
			return fmt.Errorf("%s: %d, %+v", key, resp.StatusCode, p)
		}
		return nil
	})
}

// undisturbed expects that another principal is executed while requests of the one that is refused are looked up and get no further.
func undisturbed(t *testing.T, nodes ...*node) {
	t.Helper()
	before := nodes[0].effects(t, "bob")
	for i, n := range nodes {
		h := &hold{make(chan struct{}), make(chan struct{})}
		n.held.Store(h)
		refused := make(chan int, 1)
		go func() {
			resp, _ := n.post(t, "acme", "held")
			refused <- resp.StatusCode
		}()
		<-h.reached
		for j := range 2 { // which its own quota has room for
			n.answers(t, "another principal", "bob", fmt.Sprint(i, j), "stored")
		}
		n.held.Store(nil)
		close(h.release)
		if got := <-refused; got != http.StatusTooManyRequests {
			t.Errorf("after its look-up: %d", got)
		}
	}
	if got := nodes[0].effects(t, "bob") - before; got != 2*len(nodes) {
		t.Errorf("bob had %d effects of %d requests", got, 2*len(nodes))
	}
}

// seed stores an answer of a third principal, so that a first count finds something.
func seed(t *testing.T, d harness.Database) {
	t.Helper()
	must(t, d.Use(t.Context(),
		func(s harness.Store[pgx.Tx]) error { return storeOne(t.Context(), s) },
		func(s harness.Store[*sql.Tx]) error { return storeOne(t.Context(), s) }))
}

func storeOne[TX any](ctx context.Context, s harness.Store[TX]) error {
	_, err := once.Do(ctx, once.New(s, once.Config{Observer: once.Discard}), once.Operation{Scope: "seed", Key: "1"}, func(context.Context, TX) (string, error) {
		return strings.Repeat("x", answer), nil
	})
	return err
}
