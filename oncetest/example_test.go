package oncetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/memstore"
)

// A service without once keeps its keys in a map, and charges a card at a provider. It sends no key to the provider, so that a charge whose answer is
// lost is made twice.
func ExampleHTTP() {
	t := printer{} // *testing.T in a test
	provider := oncetest.NewProvider(t, oncetest.ProviderConfig{Dedupes: true})
	oncetest.HTTP(t, oncetest.Service{
		Start: func(p *oncetest.Process) http.Handler {
			client := &http.Client{Transport: p.Transport(provider)}
			var mu sync.Mutex
			charged := map[string]bool{}
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if key := r.Header.Get("Idempotency-Key"); !charged[key] {
					answer, err := client.Post("http://provider.test/charges", "application/json", strings.NewReader(`{"amount":5}`))
					if err != nil {
						http.Error(w, "try again", http.StatusBadGateway)
						return
					}
					_ = answer.Body.Close()
					charged[key] = true
				}
				_, _ = io.WriteString(w, "charged")
			})
		},
		Request: func() *http.Request {
			return httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(`{"amount":5}`))
		},
		Skip: []oncetest.Fault{
			oncetest.FaultStore, oncetest.FaultStatement, // there is no store
			oncetest.FaultMismatch, oncetest.FaultDeath, // it knows no bodies, and loses its map
		},
	})
	// Output:
	// oncetest: write 1 is not answered: the effects are effects at the provider +2, but without the fault they are effects at the provider +1
}

// A function is tested with the faults of its store. On SQL, oncetest.Process.Open opens the database, and nothing is left out.
func ExampleDo() {
	t := printer{} // *testing.T in a test
	s := memstore.New()
	refunds := func() int {
		text, _ := s.Get("refunds")
		return len(text)
	}
	oncetest.Do(t, oncetest.Work{
		Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
			engine := once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard})
			return func(ctx context.Context, op once.Operation) (any, error) {
				result, err := once.Do(ctx, engine, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
					text, _, err := tx.Get("refunds")
					if err != nil {
						return "", err
					}
					return "refunded", tx.Put("refunds", text+"x")
				})
				return result.Value, err
			}
		},
		Count: map[string]func() int{"refunds": refunds},
		Skip:  []oncetest.Fault{oncetest.FaultNotSent, oncetest.FaultNotAnswered, oncetest.FaultDeath}, // nothing is connected
	})
	fmt.Println("requests that took effect once:", refunds() > 10)
	// Output: requests that took effect once: true
}

// A consumer gets each message until it has acknowledged it, and then once more. On SQL an inbox takes the place of once.Do.
func ExampleInbox() {
	t := printer{} // *testing.T in a test
	s := memstore.New()
	booked := 0
	oncetest.Inbox(t, oncetest.Consumer{
		Start: func(p *oncetest.Process) func(context.Context, message.Message) error {
			engine := once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard})
			return func(ctx context.Context, m message.Message) error {
				_, err := once.Do(ctx, engine, once.Operation{Scope: m.Topic, Key: m.ID}, func(_ context.Context, tx *memstore.Tx) (string, error) {
					booked++ // beside the transaction: this is wrong
					return "booked", tx.Put(m.ID, string(m.Payload))
				})
				return err
			}
		},
		Message: func() message.Message {
			return message.Message{Topic: "orders", Type: "order.created", Payload: []byte("5")}
		},
		Count: map[string]func() int{"bookings": func() int { return booked }},
		Skip: []oncetest.Fault{
			oncetest.FaultStore, oncetest.FaultConcurrent, // this example shows one fault
			oncetest.FaultNotSent, oncetest.FaultNotAnswered, oncetest.FaultDeath, // nothing is connected
		},
	})
	// Output:
	// oncetest: statement 1 is refused: the effects are bookings +2, but without the fault they are bookings +1
}

// A handler is called without its middleware.
func ExampleWithTx() {
	t := printer{} // *testing.T in a test
	createRefund := func(w http.ResponseWriter, r *http.Request) {
		if err := oncehttp.Tx[*memstore.Tx](r.Context()).Put("refund", "5"); err != nil {
			oncehttp.Fail(w, r, err)
		}
	}
	tx := memstore.New().BeginTx()
	defer tx.Rollback()
	r := httptest.NewRequest(http.MethodPost, "/refunds", http.NoBody)
	createRefund(httptest.NewRecorder(), r.WithContext(oncetest.WithTx(t, r.Context(), tx)))
	fmt.Println(tx.Get("refund"))
	// Output: 5 true <nil>
}

// Answers are kept for 72 hours by default. Then a key is new again.
func ExampleAdvance() {
	t := printer{} // *testing.T in a test
	s := memstore.New()
	engine := once.New(s, once.Config{Observer: once.Discard})
	refund := func() {
		result, err := once.Do(t.Context(), engine, once.Operation{Scope: "refunds", Key: "key-1"}, func(_ context.Context, tx *memstore.Tx) (string, error) {
			return "refunded", tx.Put("refund", "5")
		})
		fmt.Println(result.Value, result.Replayed, err)
	}
	refund()
	refund()
	oncetest.Advance(t, s, 73*time.Hour)
	refund()
	// Output:
	// refunded false <nil>
	// refunded true <nil>
	// refunded false <nil>
}

// A provider loses an answer. The request that is sent again has no further effect.
func ExampleProvider() {
	t := printer{} // *testing.T in a test
	bank := oncetest.NewProvider(t, oncetest.ProviderConfig{Dedupes: true})
	bank.LoseAnswers(1)
	client := &http.Client{Transport: bank}
	for range 2 {
		transfer, err := pay(t.Context(), client, "key-1")
		fmt.Println(transfer, err != nil, bank.Effects())
	}
	// Output:
	//  true 1
	// {"id":1} false 1
}

// pay is a client of a bank.
func pay(ctx context.Context, client *http.Client, key string) (transfer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test/transfers", strings.NewReader(`{"amount":5}`))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// printer is a test that prints what it would report.
type printer struct{ testing.TB }

func (printer) Helper()                           {}
func (printer) Context() context.Context          { return context.Background() }
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (printer) Error(args ...any)                 { fmt.Println(args...) }
func (printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
