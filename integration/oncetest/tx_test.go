package oncetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// onTx runs a test on databases, in a transaction that is rolled back: nothing of it may be left.
func onTx(t *testing.T, overSQL func(*testing.T, conn[*sql.Tx], *sql.Tx), overPgx func(*testing.T, conn[pgx.Tx], pgx.Tx)) {
	t.Helper()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := newDatabase(t, kind)
		ctx := t.Context()
		if kind == harness.Pgx {
			s, pool := harness.OpenPgx(t, d)
			tx, err := pool.Begin(ctx)
			harness.Must(t, err)
			overPgx(t, pgxWorld(t, d).open(nil), tx)
			harness.Must(t, tx.Rollback(ctx))
			nothingLeft(t, s)
			return
		}
		s, db := harness.OpenSQL(t, d)
		tx, err := db.BeginTx(ctx, nil)
		harness.Must(t, err)
		c := sqlWorld(t, d).open(nil)
		c.store = s
		overSQL(t, c, tx)
		harness.Must(t, tx.Rollback())
		nothingLeft(t, s)
	})
}

func nothingLeft[TX any](t *testing.T, s harness.Store[TX]) {
	t.Helper()
	for _, table := range []string{"refund", "audit", "once_operation", "once_outbox"} {
		if n := harness.Count(t, s, "select count(*) from "+table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// allInTx: an operation, its replay, another body, a lease and a message, all in tx.
func allInTx[TX any](t *testing.T, c conn[TX], tx TX) {
	in := oncetest.InTx(store.Store[TX](c.store), tx)
	engine, box := once.New(store.Store[TX](in), once.Config{Observer: once.Discard}), outbox.New(in, outbox.Config{})
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, func(w http.ResponseWriter, r *http.Request, tx TX) {
		err := c.exec(r.Context(), tx, "insert into refund (account, amount) values (?, ?)", "acme", 5)
		if err == nil {
			err = box.Add(r.Context(), tx, order())
		}
		answer(w, r, err)
	})
	send := func(body string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "key-1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Idempotency-Status")
	}
	for i, want := range []string{"201 stored", "201 replayed"} {
		if code, status := send("5"); fmt.Sprint(code, " ", status) != want {
			t.Errorf("request %d: %d %s, want %s", i+1, code, status, want)
		}
	}
	if code, _ := send("6"); code != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d", code)
	}
	m := oncetest.RequireMessage(t, box, message.Message{Topic: "orders", Type: "order.created", Payload: []byte(`{}`)})
	if m.Key != "acme" || m.Seq != 1 {
		t.Errorf("the message: %+v", m)
	}
	leased(t, c, in, tx)
	oncetest.Advance(t, in, 400*24*time.Hour) // beyond the retention
	if code, status := send("6"); code != http.StatusCreated || status != "stored" {
		t.Errorf("after the retention: %d %s", code, status)
	}
	for text, want := range map[string]message.Message{"has 2 messages": {Topic: "orders"}, "has 0 messages": {Topic: "orders", Key: "other"}} {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			oncetest.RequireMessage(r, box, want)
		}()
		if <-done; !strings.Contains(r.said, text) {
			t.Errorf("%+v: %q", want, r.said)
		}
	}
}

// leased does work under a lease that is left in the middle, and is taken over when its lease is over.
func leased[TX any](t *testing.T, c conn[TX], in store.Store[TX], tx TX) {
	jobs := once.New(lease.New(in, lease.Config{}), once.Config{Observer: once.Discard})
	op, runs := once.Operation{Scope: "jobs", Key: "1"}, 0
	do := func() error {
		_, err := once.Do(t.Context(), jobs, op, func(ctx context.Context, r *lease.Run) (string, error) {
			if _, err := lease.InTx(ctx, r, in, "book", func(ctx context.Context, tx TX) (int, error) {
				runs++
				return 1, c.exec(ctx, tx, "insert into audit (what) values ('booked')")
			}); err != nil {
				return "", err
			}
			return "done", nil
		})
		return err
	}
	if err := do(); err != nil || runs != 1 {
		t.Errorf("under a lease: %v, %d runs", err, runs)
	}
	if err := do(); err != nil || runs != 1 {
		t.Errorf("again: %v, %d runs", err, runs)
	}
	if _, err := in.Swap(t.Context(), store.Change{ID: store.ID{Scope: "jobs", Key: "2"}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("0123456789abcdef")}, Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	lapsed := func() bool {
		rec, err := in.Read(t.Context(), store.ID{Scope: "jobs", Key: "2"})
		return err == nil && rec.LeaseExpired
	}
	before := lapsed()
	oncetest.Advance(t, in, 2*time.Hour)
	if before || !lapsed() {
		t.Errorf("the lease was over: %v, and after an advance: %v", before, lapsed())
	}
}

// TestAllInATransactionOfTheTest: with InTx operations, replays, leases and messages are kept in a transaction of the test, and are gone with it.
func TestAllInATransactionOfTheTest(t *testing.T) {
	testenv.Both(t)
	onTx(t, allInTx[*sql.Tx], allInTx[pgx.Tx])
}

// TestAHandlerWithoutItsMiddleware: with WithTx a handler finds the transaction of the test.
func TestAHandlerWithoutItsMiddleware(t *testing.T) {
	testenv.Both(t)
	onTx(t, handlerAlone[*sql.Tx], handlerAlone[pgx.Tx])
}

func handlerAlone[TX any](t *testing.T, c conn[TX], tx TX) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, c.exec(r.Context(), oncehttp.Tx[TX](r.Context()), "insert into refund (account, amount) values (?, ?)", "acme", 5))
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request().WithContext(oncetest.WithTx(t, t.Context(), tx)))
	if w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a handler without a transaction goes on")
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), request())
	}()
}
