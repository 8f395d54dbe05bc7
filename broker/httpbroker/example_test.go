package httpbroker_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/webhook"
)

func Example() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path, r.Header.Get("Ce-Type"), r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()

	publisher := httpbroker.Publisher(receiver.URL+"/events/{topic}", httpbroker.Config{
		Prepare: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer secret")
			return nil
		},
	})

	// A relay does this: box.Relay(publisher, outbox.RelayConfig{}).Run(ctx).
	errs := publisher.Publish(context.Background(), []message.Message{{
		ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "account-7", Seq: 1, Type: "refund.succeeded",
		Source: "payments", Payload: []byte(`{"amount":700}`), Headers: map[string]string{"content-type": "application/json"},
	}})
	fmt.Println(errs)
	// Output:
	// POST /events/refunds refund.succeeded 0194b5e0-7f00-7000-8000-000000000001
	// []
}

var engine *once.Engine[*sql.Tx]

func ExampleReceiver() { //nolint:testableexamples // it needs a database: integration/push has receivers that run
	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		var refund struct{ Amount int64 }
		if err := json.Unmarshal(m.Payload, &refund); err != nil {
			return retry.Permanent(err) // a dead letter at once: a further attempt would fail, too
		}
		_, err := tx.ExecContext(ctx, "insert into booking (account, amount) values (?, ?)", m.Key, refund.Amount)
		return err
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx, book) }()

	mux := http.NewServeMux()
	mux.Handle("POST /events/{topic}", httpbroker.Receiver(in, book, httpbroker.ReceiverConfig{}))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadTimeout: time.Minute}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Println(err)
	}
	stop()
	fmt.Println(<-ended)
}

// Webhooks of the tenants of a service, whose secrets are in its database. Package webhook has receivers for the usual senders.
func ExampleReceiver_webhook() { //nolint:testableexamples // it needs a database: integration/push has one that runs
	in := inbox.New(engine, inbox.Config{Consumer: "crm"})
	apply := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into contact (id, body) values (?, ?)", m.ID, string(m.Payload))
		return err
	}
	receiver := httpbroker.Receiver(in, apply, httpbroker.ReceiverConfig{
		Verify: func(r *http.Request, body []byte) error {
			secret, err := secretOf(r.Context(), r.PathValue("tenant"))
			if err != nil {
				return retry.After(err, 5*time.Second) // 503: it could not be checked
			}
			_, err = webhook.Standard(secret).Verify(r.Header, body)
			return err
		},
		Decode: func(r *http.Request, body []byte) (list []message.Message, err error) {
			var events []struct{ ID, Type string } // several in one body
			err = json.Unmarshal(body, &events)
			for _, e := range events {
				list = append(list, message.Message{ID: e.ID, Source: "crm " + r.PathValue("tenant"), Type: e.Type, Payload: body})
			}
			return list, err
		},
	})
	http.Handle("POST /hooks/{tenant}", receiver)
}

// secretOf reads a secret. It was checked when it was stored: webhook.NewSigner returns an error for one that is none.
func secretOf(context.Context, string) (string, error) { return "", errors.New("down") }
