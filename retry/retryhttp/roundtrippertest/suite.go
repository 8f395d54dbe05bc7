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
	// New returns a new client that sends each attempt with base. The client should make three to five attempts, and should give up after ten
	// seconds. The pauses of the client should be at most 100 ms if the server does not ask for a pause.
	New func(base http.RoundTripper) http.RoundTripper

	// NewWithKeys is like New, for a client that adds an idempotency key to requests that need a key and have none. If the client has no
	// function that adds keys, leave NewWithKeys nil; then the checks that need added keys fail.
	NewWithKeys func(base http.RoundTripper) http.RoundTripper

	// NewWithJournal is like New, for a client with a journal in the directory dir. The directory may already contain the journal of a client that
	// was killed. If the client has no journal, leave NewWithJournal nil; then the check that needs a journal fails.
	NewWithJournal func(dir string, base http.RoundTripper) (Journaled, error)
}

// Check is one requirement for a client.
type Check struct {
	Name    string // a short name, unique among the checks
	Promise string // the requirement, as a sentence

	run func(*lab) error
}

// Result is the result of one check.
type Result struct {
	Check  string
	Passed bool
	Note   string // the reason why the check failed, or ""
}

// Checks returns all checks, in the order in which Run reports them.
func Checks() []Check { return slices.Clone(checks) }

var checks = slices.Concat(methodChecks, afterChecks, bodyChecks, connectionChecks, staleChecks, failureChecks, answerChecks, streamChecks, budgetChecks, limitChecks, journalChecks)

// Judge runs all checks on c, several at the same time, and returns their results. Judge takes some
// seconds.
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

// Run runs each check on c as a subtest of t.
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
				found <- fmt.Errorf("the client panicked: %v", p)
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

var errHangs = errors.New("the client has not returned within the time of the check")
