package roundtrippertest

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// journals opens what keeps the intents of retryhttp, and may change it.
func journals(change func(journal.Journal) journal.Journal, base func(http.RoundTripper) http.RoundTripper) func(string, http.RoundTripper) (Journaled, error) {
	return func(dir string, b http.RoundTripper) (Journaled, error) {
		f, err := journal.Open(filepath.Join(dir, "intents"), journal.Config{})
		if err != nil {
			return Journaled{}, err
		}
		j := change(f)
		t := &retryhttp.Transport{Base: base(b), Journal: j}
		return Journaled{t, func(ctx context.Context) error {
			_, err := journal.Resume(ctx, j, &http.Client{Transport: t}, journal.Options{})
			return err
		}, f.Close}, nil
	}
}

func asItIs[T any](v T) T { return v }

// late writes down what was asked for when that is over.
type late struct{ journal.Journal }

func (late) Begin(_ context.Context, in journal.Intent) (journal.Intent, error) { return in, nil }

func (l late) End(ctx context.Context, in journal.Intent, _ journal.Proof) error {
	_, err := l.Journal.Begin(ctx, in)
	return err
}

// endless never closes an intent.
type endless struct{ journal.Journal }

func (e endless) End(ctx context.Context, in journal.Intent, _ journal.Proof) error {
	return e.Journal.End(ctx, in, journal.ProofNone)
}

// forgetful are clients that are not resumed as they should be.
var forgetful = []Candidate{
	{NewWithJournal: journals(func(j journal.Journal) journal.Journal { return late{j} }, asItIs[http.RoundTripper])},
	{NewWithJournal: journals(func(j journal.Journal) journal.Journal { return endless{j} }, asItIs[http.RoundTripper])},
	{NewWithJournal: journals(asItIs[journal.Journal], func(base http.RoundTripper) http.RoundTripper { // with another key
		return roundTripper(func(r *http.Request) (*http.Response, error) { return base.RoundTrip(rekey(r)) })
	})},
	{NewWithJournal: func(_ string, base http.RoundTripper) (Journaled, error) { // with none
		return Journaled{RoundTripper: good(base), Resume: func(context.Context) error { return nil }}, nil
	}},
}

func TestKilledAndResumed(t *testing.T) {
	l := &lab{ctx: t.Context(), candidate: Candidate{NewWithJournal: journals(asItIs[journal.Journal], asItIs[http.RoundTripper])}}
	defer l.close()
	if err := l.killedAndResumed(); err != nil {
		t.Error(err)
	}
	l.candidate.NewWithJournal = nil
	if err := l.killedAndResumed(); !errors.Is(err, errNoJournal) {
		t.Errorf("without a journal: %v", err)
	}
}
