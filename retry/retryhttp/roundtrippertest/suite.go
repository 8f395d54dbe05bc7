package roundtrippertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Candidate is the client under test.
type Candidate struct {
	// New returns a new client that sends each attempt with base. It should make three to five attempts, with pauses of at most 100 ms if the server
	// asks for none, and take up to ten seconds in all.
	New func(base http.RoundTripper) http.RoundTripper

	// NewWithKeys is the same for a client that gives an idempotency key to requests which need one and have none. Nil if the candidate has no such
	// client: then the checks that need it fail.
	NewWithKeys func(base http.RoundTripper) http.RoundTripper

	// NewWithJournal is the same for a client with a journal in files of the directory, which may already have the journal of a client that was
	// killed. Nil if the candidate has no such client: then the check that needs it fails.
	NewWithJournal func(dir string, base http.RoundTripper) (Journaled, error)
}

// Check is one requirement for a client.
type Check struct {
	Name    string
	Promise string

	run func(*lab) error
}

// Result is the result of a check.
type Result struct {
	Check  string
	Passed bool
	Note   string // the reason of a failure
}

// Checks returns all checks, in order.
func Checks() []Check { return slices.Clone(checks) }

var checks = slices.Concat(methodChecks, afterChecks, bodyChecks, connectionChecks, staleChecks, failureChecks, answerChecks, streamChecks, budgetChecks, limitChecks, journalChecks)

// Judge runs all checks, several at a time; it takes some seconds.
func Judge(ctx context.Context, c Candidate) []Result {
	results := make([]Result, len(checks))
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i, check := range checks {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			results[i] = Result{Check: check.Name, Passed: true}
			if err := check.judge(ctx, c); err != nil {
				results[i].Passed, results[i].Note = false, err.Error()
			}
		})
	}
	all.Wait()
	return results
}

// Run runs each check as a test.
func Run(t *testing.T, c Candidate) {
	t.Helper()
	for _, check := range checks {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			if err := check.judge(t.Context(), c); err != nil {
				t.Errorf("%s: %v", check.Promise, err)
			}
		})
	}
}

// judge runs the check. A client that hangs does not block it.
func (c Check) judge(ctx context.Context, candidate Candidate) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errHangs)
	l := &lab{ctx: ctx, candidate: candidate}
	found := make(chan error, 1)
	go func() {
		defer l.close()
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				found <- fmt.Errorf("panic: %v", p)
			}
		}()
		found <- c.run(l)
	}()
	select {
	case err := <-found:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-found:
		return err
	case <-time.After(5 * time.Second):
		go l.close() // a hanging client may be waiting for its servers
		return errHangs
	}
}

var errHangs = errors.New("it hangs")
