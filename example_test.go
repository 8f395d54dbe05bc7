package once_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/store/memstore"
)

type Refund struct {
	ID     string
	Amount int
}

// refund is a handler: what it writes commits with the key, or not at all.
func refund(_ context.Context, tx *memstore.Tx) (Refund, error) {
	fmt.Println("refunding")
	return Refund{"re_1", 1000}, tx.Insert("refund/re_1", "1000")
}

func ExampleDo() {
	engine := once.New(memstore.New(), once.Config{})
	op := once.Operation{
		Scope:  "acme refunds",
		Key:    once.DeriveKey("refund", "ch_9ab", "1000"),
		Retain: once.Forever, // only one such refund, ever; without it, for 72 hours
	}
	for range 3 { // a client that retries
		r, err := once.Do(context.Background(), engine, op, refund)
		fmt.Println(r.Value, r.Replayed, err)
	}
	// Output:
	// refunding
	// {re_1 1000} false <nil>
	// {re_1 1000} true <nil>
	// {re_1 1000} true <nil>
}

// The same key for another request is refused: it would get the answer to a
// question that it has not asked.
func ExampleDo_mismatch() {
	engine := once.New(memstore.New(), once.Config{})
	for _, request := range []string{`{"amount":1000}`, `{"amount":9999}`} {
		op := once.Operation{Scope: "acme refunds", Key: "k1", Fingerprint: once.FingerprintOf([]byte(request))}
		_, err := once.Do(context.Background(), engine, op, refund)
		fmt.Printf("%q\n", once.CodeOf(err))
	}
	// Output:
	// refunding
	// ""
	// "mismatch"
}

// An error that is not final leaves nothing behind: the retry executes.
func ExampleDo_transient() {
	engine := once.New(memstore.New(), once.Config{})
	op := once.Operation{Scope: "acme refunds", Key: "k1"}
	outage := true
	for range 2 {
		r, err := once.Do(context.Background(), engine, op, func(ctx context.Context, tx *memstore.Tx) (Refund, error) {
			r, err := refund(ctx, tx)
			if outage {
				outage = false
				return r, errors.New("the ledger is away")
			}
			return r, err
		})
		fmt.Println(r.Value, err)
	}
	// Output:
	// refunding
	// { 0} once: acme refunds, key 6ab9f1eb8f7d3388: failed (not applied): the ledger is away
	// refunding
	// {re_1 1000} <nil>
}

// Join puts an operation into a transaction of the caller's own.
func ExampleJoin() {
	store := memstore.New()
	engine := once.New(store, once.Config{})
	op := once.Operation{Scope: "acme refunds", Key: "k1"}
	for range 2 {
		tx := store.BeginTx()
		r, err := once.Join(context.Background(), engine, tx, op, refund)
		if err != nil {
			tx.Rollback()
			fmt.Println(err)
			return
		}
		fmt.Println(r.Value, r.Replayed, tx.Commit())
	}
	// Output:
	// refunding
	// {re_1 1000} false <nil>
	// {re_1 1000} true <nil>
}

// A Failure is final: it is stored, what the handler wrote is rolled back, and
// every retry gets it again.
func ExampleFailure() {
	store := memstore.New()
	engine := once.New(store, once.Config{})
	op := once.Operation{Scope: "acme charges", Key: "k1"}
	for range 2 {
		r, err := once.Do(context.Background(), engine, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
			fmt.Println("charging")
			if err := tx.Put("charge", "pending"); err != nil {
				return "", err
			}
			return "", &once.Failure{Code: "card_declined", Message: "insufficient funds"}
		})
		if f := (*once.Failure)(nil); errors.As(err, &f) {
			fmt.Println(f.Code, r.Replayed)
		}
	}
	_, written := store.Get("charge")
	fmt.Println("written:", written)
	// Output:
	// charging
	// card_declined false
	// card_declined true
	// written: false
}

func ExampleDeriveKey() {
	fmt.Println(once.DeriveKey("refund", "ch_9ab", "1000"))
	fmt.Println(once.DeriveKey("a:b", "c") == once.DeriveKey("a", "b:c"))
	// Output:
	// refund:ch_9ab:1000
	// false
}

func ExampleNamespace() {
	live := once.Namespace{Prefix: "billing", Environment: "live", Version: "v1"}
	engine := once.New(memstore.New(), once.Config{RequireNamespace: live})
	for _, key := range []string{live.Key("re_1"), "billing:test:v1:re_1"} {
		_, err := once.Do(context.Background(), engine, once.Operation{Scope: "acme refunds", Key: key}, refund)
		fmt.Println(key, err == nil)
	}
	// Output:
	// refunding
	// billing:live:v1:re_1 true
	// billing:test:v1:re_1 false
}

// A retry after the retention is a new operation.
func ExampleConfig_retain() {
	store := memstore.New()
	engine := once.New(store, once.Config{Retain: 24 * time.Hour})
	op := once.Operation{Scope: "acme reports", Key: "k1"}
	for range 3 {
		r, err := once.Do(context.Background(), engine, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
			return "report", tx.Put("report", "sent")
		})
		fmt.Println(r.Replayed, err)
		store.Advance(13 * time.Hour)
	}
	// Output:
	// false <nil>
	// true <nil>
	// false <nil>
}

func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))
	engine := once.New(memstore.New(), once.Config{Observer: once.Log(logger)})
	op := once.Operation{Scope: "acme refunds", Key: "k1", Attempt: once.Attempt{RequestID: "req_7"}}
	for range 2 {
		_, _ = once.Do(context.Background(), engine, op, refund)
	}
	// Output:
	// refunding
	// level=INFO msg="once: finished" scope="acme refunds" idempotency_key=6ab9f1eb8f7d3388 outcome=executed effect=applied from_state=absent to_state=done runs=1 request_id=req_7
	// level=INFO msg="once: finished" scope="acme refunds" idempotency_key=6ab9f1eb8f7d3388 outcome=replayed effect=applied from_state=done to_state=done runs=0 request_id=req_7
}

func withoutTimes(_ []string, a slog.Attr) slog.Attr {
	if k := a.Value.Kind(); k == slog.KindTime || k == slog.KindDuration {
		return slog.Attr{}
	}
	return a
}

func ExampleNewEncrypter() {
	sealer, err := once.NewEncrypter(make([]byte, 32)) // from a secret manager, in earnest
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed, err := sealer.Encrypt([]byte("amount=1000"), seal.Label("acme refunds", "k1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	plain, err := sealer.Decrypt(sealed, seal.Label("acme refunds", "k1"))
	fmt.Printf("%s %v\n", plain, err)
	_, err = sealer.Decrypt(sealed, seal.Label("evil refunds", "k1"))
	fmt.Println(err)
	// Output:
	// amount=1000 <nil>
	// once: the stored data cannot be decrypted: the encryption key is wrong, the data is damaged, or the data was copied from another row
}

func ExampleLogSampled() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))
	engine := once.New(memstore.New(), once.Config{Observer: once.LogSampled(logger, 100)})
	op := once.Operation{Scope: "acme refunds", Key: "k1", Fingerprint: once.FingerprintOf([]byte("10 EUR"))}
	_, _ = once.Do(context.Background(), engine, op, refund) // not one of the keys whose calls are logged
	op.Fingerprint = once.FingerprintOf([]byte("20 EUR"))
	_, _ = once.Do(context.Background(), engine, op, refund) // a mismatch always is
	// Output:
	// refunding
	// level=WARN msg="once: finished" scope="acme refunds" idempotency_key=6ab9f1eb8f7d3388 payload_hash=7abecabdd4739d89 outcome=mismatch effect="not applied" from_state=done to_state=done error_code=mismatch runs=0 error="an earlier call with this key had a different request (another Operation.Fingerprint). Try: send the same request as the first time, or use a different key for a different intent"
}
