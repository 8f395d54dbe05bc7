package roundtrippertest_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

// A client is judged by servers on loopback that fail in every way that is known.
func Example() {
	results := roundtrippertest.Judge(context.Background(), roundtrippertest.Candidate{
		New: func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base}
		},
		NewWithKeys: func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base, Keys: true}
		},
		NewWithJournal: func(dir string, base http.RoundTripper) (j roundtrippertest.Journaled, err error) {
			intents, err := journal.Open(filepath.Join(dir, "intents"), journal.Config{})
			if err != nil {
				return j, err
			}
			client := &http.Client{Transport: &retryhttp.Transport{Base: base, Journal: intents}}
			return roundtrippertest.Journaled{
				RoundTripper: client.Transport,
				Resume: func(ctx context.Context) error {
					_, err := journal.Resume(ctx, intents, client, journal.Options{})
					return err
				},
				Close: intents.Close,
			}, nil
		},
	})
	failed := 0
	for _, r := range results {
		if !r.Passed {
			fmt.Println(r.Check, r.Note)
			failed++
		}
	}
	fmt.Println(failed, "checks have failed")
	// Output: 0 checks have failed
}

// The promises, by the names that results and subtests have.
func ExampleChecks() {
	for _, c := range roundtrippertest.Checks() {
		if c.Name == "KeyedPOSTReset" || c.Name == "RetryAfterNeverEarly" {
			fmt.Printf("%s: %s\n", c.Name, c.Promise)
		}
	}
	// Output:
	// KeyedPOSTReset: a POST with a key is repeated after the connection was reset
	// RetryAfterNeverEarly: the client never retries earlier than the server has asked
}
