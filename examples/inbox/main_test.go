package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncetest"
)

// TestBookedOnce: the sender loses answers and sends events again, and out of order. Each is booked once, in the order of
// its account. One that can never be booked becomes a dead letter.
func TestBookedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db, in, err := open(ctx, "file:"+filepath.Join(t.TempDir(), "billing.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	receive := httpbroker.Receiver(in, book, httpbroker.ReceiverConfig{})
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		receive.ServeHTTP(got, r)
		if requests.Add(1) <= 2 {
			panic(http.ErrAbortHandler) // it was applied, and its sender does not learn it
		}
		w.WriteHeader(got.Code)
	}))
	defer server.Close()

	publisher := httpbroker.Publisher(server.URL, httpbroker.Config{})
	event := func(seq int64, payload string) message.Message {
		return message.Message{
			ID: fmt.Sprint("e", seq), Source: "payments", Topic: "refunds", Key: "acct_1", Seq: seq, Type: "refund.succeeded", Payload: []byte(payload),
		}
	}
	for _, m := range []message.Message{
		event(1, `{"account":"acct_1","amount":1000}`),
		event(3, `{"account":"acct_1","amount":3000}`),
		event(2, `{"account":"acct_1","amount":2000}`),
		event(2, `{"account":"acct_1","amount":2000}`),
		{ID: "bad", Source: "payments", Topic: "refunds", Type: "refund.succeeded", Payload: []byte("no refund")},
	} {
		for errors.Join(publisher.Publish(ctx, []message.Message{m})...) != nil {
			if ctx.Err() != nil {
				t.Fatal("the message is not delivered:", m.ID)
			}
		}
	}

	var booked []int
	rows, err := db.QueryContext(ctx, "select amount from booking order by rowid")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var amount int
		if err := rows.Scan(&amount); err != nil {
			t.Fatal(err)
		}
		booked = append(booked, amount)
	}
	if err := rows.Err(); err != nil || !slices.Equal(booked, []int{1000, 2000, 3000}) {
		t.Errorf("booked: %v, %v", booked, err)
	}
	var dead int
	if err := db.QueryRowContext(ctx, "select count(*) from once_deadletter where class = 'permanent'").Scan(&dead); err != nil || dead != 1 || requests.Load() < 7 {
		t.Errorf("%d dead letters after %d requests, %v", dead, requests.Load(), err)
	}
}

// TestOneBooking: whatever fails, breaks or dies, an event is booked once.
func TestOneBooking(t *testing.T) {
	file, seq := "file:"+filepath.Join(t.TempDir(), "billing.db"), int64(0)
	oncetest.Inbox(t, oncetest.Consumer{
		Start: func(p *oncetest.Process) func(context.Context, message.Message) error {
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			in := newInbox(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
			return func(ctx context.Context, m message.Message) error {
				_, err := in.Handle(ctx, m, book)
				return err
			}
		},
		Message: func() message.Message {
			seq++
			return message.Message{Source: "payments", Topic: "refunds", Key: "acct_1", Seq: seq, Type: "refund.succeeded", Payload: []byte(`{"account":"acct_1","amount":1000}`)}
		},
	})
}
