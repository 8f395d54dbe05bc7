package journal_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// A client whose server has failed it ends. The next one asks again with the same key.
func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	well := false
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Authorization"), "asks with the key", r.Header.Get("Idempotency-Key"))
		if !well {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()

	run := func(token string, work func(context.Context, *journal.File, *http.Client) error) {
		intents, err := journal.Open(filepath.Join(dir, "intents"), journal.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = intents.Close() }()
		client := &http.Client{Transport: &retryhttp.Transport{Journal: intents, Policy: retry.Policy{Attempts: 1}}}
		resumed, err := journal.Resume(context.Background(), intents, client, journal.Options{
			Prepare: func(r *http.Request, _ journal.Intent) error {
				r.Header.Set("Authorization", token) // secrets are not in the journal
				return nil
			},
			Answer: func(in journal.Intent, resp *http.Response) error {
				fmt.Println("resumed:", in.Method, string(in.Body), resp.StatusCode)
				return nil
			},
		})
		if err != nil || work(context.Background(), intents, client) != nil {
			fmt.Println("failed", err)
			return
		}
		fmt.Println(resumed.Closed, "closed")
	}
	run("Ada", func(ctx context.Context, _ *journal.File, client *http.Client) error {
		ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: "refund:ch_9ab"})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, strings.NewReader("1000"))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Ada")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		fmt.Println(resp.StatusCode, "leaves it open")
		return resp.Body.Close()
	})
	well = true
	run("Eve", func(context.Context, *journal.File, *http.Client) error { return nil })
	// Output:
	// Ada asks with the key refund:ch_9ab
	// 502 leaves it open
	// 0 closed
	// Eve asks with the key refund:ch_9ab
	// resumed: POST 1000 200
	// 1 closed
}

// What a dead client has left is resumed now and then, until nothing is open. A host that
// fails does not get all of it.
func ExampleResume() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	intents, err := journal.Open(filepath.Join(dir, "intents"), journal.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = intents.Close() }()

	var well atomic.Bool
	var asked atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1); !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer service.Close()
	for i := range 300 { // as clients do before they send something
		in := journal.Intent{Key: fmt.Sprint("refund:", i), Method: http.MethodPost, URL: service.URL}
		if in, err = intents.Begin(context.Background(), in); err == nil {
			err = intents.End(context.Background(), in, journal.ProofNone)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	policy := retry.Policy{Base: -1, Budget: &retry.Budget{}} // by default each host has a budget
	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents, Policy: policy}}
	for range 3 {
		r, err := journal.Resume(context.Background(), intents, client, journal.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d closed, %d open; the host was asked %d times\n", r.Closed, r.Open, asked.Swap(0))
		well.Store(r.Left == 299)
	}
	// Output:
	// 0 closed, 300 open; the host was asked 11 times
	// 0 closed, 300 open; the host was asked 1 times
	// 300 closed, 0 open; the host was asked 300 times
}
