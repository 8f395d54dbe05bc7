package httpbroker_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
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

func ExampleReceiver() { //nolint:testableexamples // it needs a database: internal/torture/push has receivers that run
	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		var refund struct{ Amount int64 }
		if err := json.Unmarshal(m.Payload, &refund); err != nil {
			return retry.Permanent(err) // a dead letter now: no other attempt can change it
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

// Webhooks of GitHub: the signature is of the raw bytes, and the ID of a delivery is in a header.
func ExampleReceiver_webhook() { //nolint:testableexamples // it needs a database: internal/torture/push has one that runs
	in := inbox.New(engine, inbox.Config{Consumer: "deploy", Retain: 30 * 24 * time.Hour, ReportSameBody: true}) // the ID is not signed
	deploy := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into deployment (id, event) values (?, ?)", m.ID, string(m.Payload))
		return err
	}
	secret := []byte(os.Getenv("GITHUB_SECRET"))
	receiver := httpbroker.Receiver(in, deploy, httpbroker.ReceiverConfig{
		Verify: func(r *http.Request, body []byte) error {
			mac := hmac.New(sha256.New, secret)
			mac.Write(body)
			if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); !hmac.Equal([]byte(r.Header.Get("X-Hub-Signature-256")), []byte(want)) {
				return errors.New("the signature is wrong")
			}
			return nil
		},
		Decode: func(r *http.Request, body []byte) ([]message.Message, error) {
			kind := r.Header.Get("X-Github-Event")
			if kind == "ping" {
				return nil, nil
			}
			return []message.Message{{ID: r.Header.Get("X-Github-Delivery"), Source: "github", Type: kind, Payload: body}}, nil
		},
	})
	http.Handle("POST /hooks/github", receiver)
}
