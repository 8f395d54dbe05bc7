package webhook_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
)

var (
	engine *once.Engine[*sql.Tx]
	s      *sqlstore.Store
)

// book is what an event does.
func book(ctx context.Context, tx *sql.Tx, m message.Message) error {
	_, err := tx.ExecContext(ctx, "insert into booking (event, type, body) values (?, ?, ?)", m.ID, m.Type, string(m.Payload))
	return err
}

func ExampleReceive() { //nolint:testableexamples // it needs a database: integration/push has one that runs
	in := inbox.New(engine, inbox.Config{
		Consumer:       "billing",
		RetainOf:       map[string]time.Duration{"stripe": 31 * 24 * time.Hour}, // a person can send an event again for 30 days
		ReportSameBody: true,                                                    // GitHub does not sign its IDs
	})
	http.Handle("POST /hooks/stripe", webhook.Receive(in, webhook.Stripe(os.Getenv("STRIPE_SECRET"), os.Getenv("STRIPE_SECRET_OLD")), book))
	http.Handle("POST /hooks/github", webhook.Receive(in, webhook.GitHub(os.Getenv("GITHUB_SECRET")), book))
	go func() { _ = in.Run(context.Background(), book) }()
}

// Senders wait for a few seconds, and work may take longer. The event is kept in the transaction of the inbox, the sender gets its answer, and a relay has it applied,
// once as well.
func ExampleReceive_applyLater() { //nolint:testableexamples // it needs a database: integration has outboxes and inboxes that run
	in := inbox.New(engine, inbox.Config{Consumer: "stripe"})
	box := outbox.New(s, outbox.Config{Source: "stripe"})
	keep := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		return box.Add(ctx, tx, message.Message{Topic: "stripe", Type: m.Type, Payload: m.Payload})
	}
	http.Handle("POST /hooks/stripe", webhook.Receive(in, webhook.Stripe(os.Getenv("STRIPE_SECRET")), keep))

	work := inbox.New(engine, inbox.Config{Consumer: "billing", HandlerTimeout: 5 * time.Minute})
	relay := box.Relay(outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages))
		for i, result := range work.HandleBatch(ctx, messages, book) {
			errs[i] = result.Err
		}
		return errs
	}), outbox.RelayConfig{})
	go func() { _ = relay.Run(context.Background()) }()
}

func ExampleStandard() {
	verifier := webhook.Standard("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	verifier.Source = "openai"
	verifier.Now = func() time.Time { return time.Unix(1614265330, 0) } // the time of this request

	header := http.Header{
		"Webhook-Id":        {"msg_p5jXN8AQM9LWM0D4loKWxJek"},
		"Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}
	m, err := verifier.Verify(header, []byte(`{"test": 2432232314}`))
	fmt.Println(m.Source, m.ID, err)
	_, err = verifier.Verify(header, []byte(`{"test":2432232314}`)) // parsed, and written again
	fmt.Println(errors.Is(err, webhook.ErrSignature))
	// Output:
	// openai msg_p5jXN8AQM9LWM0D4loKWxJek <nil>
	// true
}

func ExampleScheme() {
	linear := webhook.Scheme{
		Source: "linear", Header: "Linear-Signature", // hexadecimal, of the body alone
		ID: "Linear-Delivery", Type: ".type",
	}.Verifier("secret")
	paddle := webhook.Scheme{
		Source: "paddle", Header: "Paddle-Signature", Prefix: "h1=", Timestamp: "ts=", Signed: "{timestamp}:{body}", // ts=1614265330;h1=eb4d...
		ID: ".event_id", Type: ".event_type",
	}.Verifier("secret")
	for _, verifier := range []*webhook.Verifier{linear, paddle} {
		_, err := verifier.Verify(http.Header{"Linear-Signature": {"00"}, "Paddle-Signature": {"ts=1;h1=00"}}, nil)
		fmt.Println(verifier.Source, errors.Is(err, webhook.ErrSignature))
	}
	// Output:
	// linear true
	// paddle true
}

func ExampleSigner() {
	secret, old := webhook.NewSecret(), webhook.NewSecret()
	signer, err := webhook.NewSigner(secret, old) // until all receivers know the new one
	if err != nil {
		fmt.Println(err)
		return
	}
	body := []byte(`{"type":"refund.succeeded","timestamp":"2026-01-01T00:00:00Z","data":{"id":"re_1"}}`)
	header := http.Header{}
	if err := signer.Sign(header, "msg_1", time.Now(), body); err != nil {
		fmt.Println(err)
		return
	}
	m, err := webhook.Standard(old).Verify(header, body) // a receiver that knows the old one
	fmt.Println(m.ID, m.Type, err)
	// Output: msg_1 refund.succeeded <nil>
}
