package retryhttp_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func TestRoundTripper(t *testing.T) {
	roundtrippertest.Run(t, roundtrippertest.Candidate{
		New: func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base}
		},
		NewWithKeys: func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base, Keys: true}
		},
		NewWithJournal: newWithJournal,
	})
}

func newWithJournal(dir string, base http.RoundTripper) (roundtrippertest.Journaled, error) {
	intents, err := journal.Open(filepath.Join(dir, "intents"), journal.Config{})
	if err != nil {
		return roundtrippertest.Journaled{}, err
	}
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Journal: intents}}
	return roundtrippertest.Journaled{RoundTripper: client.Transport, Close: intents.Close, Resume: func(ctx context.Context) error {
		_, err := journal.Resume(ctx, intents, client, journal.Options{})
		return err
	}}, nil
}
