package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// hung is a journal whose database does not answer some calls.
type hung struct {
	journal.Journal

	begin, end bool
}

func (h hung) Begin(ctx context.Context, in journal.Intent) (journal.Intent, error) {
	if h.begin {
		<-ctx.Done()
		return in, ctx.Err()
	}
	return in, nil
}

func (h hung) End(ctx context.Context, _ journal.Intent, _ journal.Proof) error {
	if h.end {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// TestHungJournalDelaysTheEnd: if the journal does not answer End, a call and Close return after five seconds, also if the context of the call has ended.
func TestHungJournalDelaysTheEnd(t *testing.T) {
	for name, b := range map[string]base{
		"no answer": func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"an answer": always(http.StatusOK),
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
			defer cancel()
			start := time.Now()
			tr := &retryhttp.Transport{Base: b, Journal: hung{end: true}, Policy: retry.Policy{Total: 300 * ms}}
			_, err := post(ctx, tr, "Idempotency-Key", "k")
			if name == "no answer" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took < 5*time.Second || took > 5*time.Second+50*ms {
				t.Errorf("%s: %v", name, took)
			}
		})
	}
}

// TestTotalLimitsTheJournal: Policy.Total limits the time in which the intent is stored, and then nothing is sent.
func TestTotalLimitsTheJournal(t *testing.T) {
	for name, journalHangs := range map[string]bool{"the journal hangs": true, "the body does not arrive": false} {
		synctest.Test(t, func(t *testing.T) {
			s := &served{base: always(http.StatusOK)}
			var body io.Reader = strings.NewReader("body")
			if !journalHangs {
				body, _ = io.Pipe()
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service.example/refunds", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			start := time.Now()
			_, err = (&retryhttp.Transport{Base: s, Journal: hung{begin: journalHangs}, Policy: retry.Policy{Total: 300 * ms, Budget: &retry.Budget{}}}).RoundTrip(r)
			var why *retry.Error
			if !errors.As(err, &why) || why.Reason != retry.ReasonTooLate || why.Attempts != 0 || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Try: ") {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took != 300*ms || len(s.requests()) != 0 {
				t.Errorf("%s: returned after %v, sent %d", name, took, len(s.requests()))
			}
		})
	}
}
