package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

func request() *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"account":"acct_1","amount":1000}`))
}

// TestOneRefund: whatever fails, breaks or dies, a refund is made once, and has one message.
func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			return newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}), outbox.New(s, outbox.Config{Source: "/refunds"}))
		},
		Request: request,
	})
}

// TestMessageOfARefund: the message and the answer of a refund, all in a transaction that is rolled back.
func TestMessageOfARefund(t *testing.T) {
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "refunds.db")+pragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := prepare(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()

	in := oncetest.InTx(store.Store[*sql.Tx](s), tx)
	box := outbox.New(in, outbox.Config{Source: "/refunds"})
	service := newServer(once.New(store.Store[*sql.Tx](in), once.Config{}), box)
	for _, want := range []string{"stored", "replayed"} {
		r, w := request(), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", "key-1")
		if service.ServeHTTP(w, r); w.Header().Get("Idempotency-Status") != want {
			t.Errorf("%d %v %s, want %s", w.Code, w.Header(), w.Body, want)
		}
	}
	oncetest.RequireMessage(t, box, message.Message{Topic: "refunds", Key: "acct_1", Type: "refund.succeeded"})
}

// TestOneEvent: a refund that is asked for again and again has one event. The receiver loses its
// first answers, so that it gets events again, and handles each once and in order.
func TestOneEvent(t *testing.T) {
	const lost = 2
	there, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "receiver.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	there.SetMaxOpenConns(1)
	if _, err := there.ExecContext(t.Context(), "create table position (topic text, key text, seq integer, primary key (topic, key)); create table event (id text, type text)"); err != nil {
		t.Fatal(err)
	}
	handled := make(chan struct{}, 10)
	var deliveries atomic.Int32
	var requests []string
	consume := receive(there, func(tx *sql.Tx, kind string, r *http.Request) error {
		_, err := tx.ExecContext(r.Context(), "insert into event (id, type) values (?, ?)", r.Header.Get("Ce-Id"), kind)
		return err
	})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		consume(got, r)
		if n := deliveries.Add(1); n <= lost {
			requests = append(requests, r.Header.Get("Idempotency-Key"))
			w.WriteHeader(http.StatusInternalServerError) // it was handled, and its sender does not learn it
			return
		}
		w.WriteHeader(got.Code)
		handled <- struct{}{}
	}))
	defer receiver.Close()

	handler, relay, err := newService(t.Context(), "file:"+filepath.Join(t.TempDir(), "refunds.db"), receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()

	for range 3 {
		r, w := request(), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", "key-1")
		if handler.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	<-handled
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the relay: %v", err)
	}
	if len(requests) != lost || len(slices.Compact(requests)) != 1 {
		t.Errorf("the deliveries of one message have the keys %v", requests)
	}
	var n, seq int
	err1 := there.QueryRowContext(t.Context(), "select count(*) from event where type = 'refund.succeeded'").Scan(&n)
	err2 := there.QueryRowContext(t.Context(), "select seq from position where topic = 'refunds' and key = 'acct_1'").Scan(&seq)
	if err := errors.Join(err1, err2); err != nil || n != 1 || seq != 1 {
		t.Errorf("%d events, number %d, %v", n, seq, err)
	}
}
