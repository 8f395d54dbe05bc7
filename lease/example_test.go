package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// provider is a payment service that dedupes by the key of a request. Its first answer gets lost.
type provider struct{ charges map[string]int }

func (p *provider) charge(key string, amount int) (string, error) {
	if _, before := p.charges[key]; before {
		return "charge 1", nil
	}
	p.charges[key] = amount
	return "", errors.New("timeout")
}

// A charge whose answer gets lost is asked for again, under the same key.
func Example() {
	ctx := context.Background()
	s := memstore.New()
	p := &provider{charges: map[string]int{}}
	jobs := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard})
	op := once.Operation{Scope: "acme POST /orders", Key: "order-42"}

	pay := func(ctx context.Context, run *lease.Run) (string, error) {
		reserve := func(_ context.Context, tx *memstore.Tx) (int, error) { return 1000, tx.Put("order-42", "reserved") }
		amount, err := lease.InTx(ctx, run, s, "reserve", reserve)
		if err != nil {
			return "", err
		}
		return lease.Call(ctx, run, "charge", func(_ context.Context, key string) (string, error) {
			return p.charge(key, amount)
		}, lease.CallPolicy{DedupedFor: 24 * time.Hour})
	}

	_, err := once.Do(ctx, jobs, op, pay)
	fmt.Println(once.CodeOf(err), once.EffectOf(err))
	paid, err := once.Do(ctx, jobs, op, pay) // the client's retry, or a Completer
	fmt.Println(paid.Value, err, len(p.charges), "charge")
	// Output:
	// failed in doubt
	// charge 1 <nil> 1 charge
}

// A call over HTTP. Nothing is said about the service, so the client sends the request once only.
func ExampleCall_http() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "letter %.8s", r.Header.Get("Idempotency-Key"))
	}))
	defer service.Close()
	client := retryhttp.NewClient(nil)
	jobs := once.New(lease.New(memstore.New(), lease.Config{}), once.Config{Observer: once.Discard})
	op := once.Operation{Scope: "acme POST /letters", Key: "letter-7"}
	sent, err := once.Do(context.Background(), jobs, op, func(ctx context.Context, run *lease.Run) (string, error) {
		return lease.Call(ctx, run, "send", func(ctx context.Context, key string) (string, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, strings.NewReader("Dear customer"))
			if err != nil {
				return "", lease.NotSent(err)
			}
			r.Header.Set("Idempotency-Key", key)
			resp, err := client.Do(r)
			if err != nil {
				return "", err // it may have been sent: unknown
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return string(body), err
		}, lease.CallPolicy{})
	})
	fmt.Println(sent.Value, err)
	// Output:
	// letter 07922027 <nil>
}

// A service that answers a second request with a key by "duplicate", and nothing else: the check looks the existing result up.
func ExampleCall_duplicate() {
	charges := map[string]string{} // at the service, by key
	charge := func(_ context.Context, key string) (string, error) {
		if _, before := charges[key]; before {
			return "", &once.Failure{Code: "PROVIDER.duplicate"}
		}
		charges[key] = "charge 1"
		return "", errors.New("timeout")
	}
	find := func(_ context.Context, key string) (string, lease.Finding, error) {
		if existing, found := charges[key]; found {
			return existing, lease.Happened, nil
		}
		return "", lease.Unclear, nil // it may still come
	}
	jobs := once.New(lease.New(memstore.New(), lease.Config{}), once.Config{Observer: once.Discard})
	op := once.Operation{Scope: "acme POST /orders", Key: "order-42"}
	paid, err := once.Do(context.Background(), jobs, op, func(ctx context.Context, run *lease.Run) (string, error) {
		return lease.Call(ctx, run, "charge", charge, lease.CallPolicy{DedupedFor: 24 * time.Hour, Check: lease.Check(find)})
	})
	fmt.Println(paid.Value, err)
	// Output:
	// charge 1 <nil>
}

// A service that does not dedupe, but can cancel: the check sees to it that what has not happened never will.
func ExampleCheck() {
	type status struct{ Charged, Cancelled bool }
	find := func(_ context.Context, key string) (string, lease.Finding, error) {
		// POST /charges/{key}/cancel answers with the state in which the charge is for ever.
		answer := status{Cancelled: true}
		switch {
		case answer.Charged:
			return "charge " + key, lease.Happened, nil
		case answer.Cancelled:
			return "", lease.Voided, nil
		}
		return "", lease.Unclear, nil
	}
	_ = lease.Check(find)
	// Output:
}

// A person has found the charge at the service, and the operation goes on behind it: the mail is sent.
func ExampleResolve() {
	ctx := context.Background()
	s, id := memstore.New(), store.ID{Scope: "acme POST /orders", Key: "order-42"}
	jobs := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard})
	order := func(ctx context.Context, run *lease.Run) (string, error) {
		charge, err := lease.Call(ctx, run, "charge", func(context.Context, string) (string, error) { return "", errors.New("timeout") }, lease.CallPolicy{})
		if err != nil {
			return "", err
		}
		return lease.Call(ctx, run, "mail", func(context.Context, string) (string, error) { return charge + " and a mail", nil }, lease.CallPolicy{})
	}
	_, err := once.Do(ctx, jobs, once.Operation{Scope: id.Scope, Key: id.Key}, order)
	fmt.Println(once.CodeOf(err))

	happened := func(ctx context.Context) error {
		rec, err := s.Read(ctx, id)
		if err != nil {
			return err
		}
		seen, err := lease.ProgressOf(id, rec) // seen.Call.Key is the key that the other service has received
		if err != nil {
			return err
		}
		return lease.Resolve(ctx, s, id, lease.Resolution{CallID: seen.CallID, CallValue: json.RawMessage(`"ch_1"`)})
	}
	fmt.Println(happened(ctx))
	done, err := once.Do(ctx, jobs, once.Operation{Scope: id.Scope, Key: id.Key}, order)
	fmt.Println(done.Value, err)
	// Output:
	// unknown
	// <nil>
	// ch_1 and a mail <nil>
}
