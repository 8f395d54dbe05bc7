package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncelib/once/retry"
)

// meeting is how the request of an intent has ended, as the transport saw it.
type meeting uint8

const (
	nothing meeting = iota // the request was not sent, and its host is not the reason
	answers                // the host has answered, whatever the answer says
	fails                  // no answer came, or an answer that only says "not now"
	unpaid                 // not sent, because the budget of the host is empty
	shut                   // not sent, because the breaker of the host is open
	astray                 // the journal has no record of the request, perhaps because the client does not use the journal
)

// result is the result of one request.
type result struct {
	to *destination
	in Intent

	meets   meeting
	trusted bool // the request was sent without a price
	later   bool // the host has asked for a pause
	outcome Proof
	err     error
}

// send sends the request of an intent. If trust is true, it sends the request even if the budget is empty.
func (r *resumption) send(ctx context.Context, in Intent, trust bool) (e result) {
	m := &resumed{journal: r.journal, id: in.ID, trust: trust}
	e.err = r.exchange(ctx, in, m, &e)
	if errors.Is(e.err, ErrGone) { // another process has already closed the intent
		e.err, m.outcome = nil, ProofAnswered
	}
	e.trusted, e.outcome = m.trusted, m.outcome
	switch {
	case m.refused:
		e.meets = unpaid
	case m.unsent:
		e.meets = nothing
	// The transport has used this journal, so the meeting is right.
	case m.begun:
	case e.err != nil && e.meets == fails:
		e.meets = astray
	case e.err == nil:
		e.meets = astray
		e.err = errors.New("the client does not use this journal. Try: a client whose retryhttp.Transport has this journal in its field Journal")
	}
	if m.outcome == ProofAnswered && !m.unsent {
		e.meets = answers
	}
	// An answer gives the price back, so that a healthy host gets all of its intents.
	if e.meets != fails && m.paid != nil {
		m.paid.Refund(retry.ClassUnknown)
	}
	if e.err != nil {
		e.err = fmt.Errorf("journal: the intent with the key %s was not resumed: %w", in.Key, e.err)
	}
	return e
}

// exchange sends a request, and passes the answer to Options.Answer. It returns the reason why the outcome of the intent cannot be used.
func (r *resumption) exchange(ctx context.Context, in Intent, m *resumed, e *result) error {
	req, err := http.NewRequestWithContext(context.WithValue(ctx, keyOfResumed{}, m), in.Method, in.URL, bytes.NewReader(in.Body))
	if err != nil {
		return err
	}
	req.Header = in.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	// If the first call has sent its key in this header, the journal has stored the header.
	if req.Header.Get("X-Idempotency-Key") == "" {
		req.Header["Idempotency-Key"] = []string{in.Key}
	}
	if r.Prepare != nil {
		if err := r.Prepare(req, in); err != nil {
			return err
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		e.meets = met(err)
		if m.outcome != ProofNone { // the outcome is known although no answer can be used: the intent is held or closed
			return nil
		}
		return err
	}
	e.meets = answers
	if excuse(resp.StatusCode) {
		e.meets, e.later = fails, resp.Header.Get("Retry-After") != ""
	}
	if r.Answer != nil {
		if err = r.Answer(in, resp); err != nil {
			// The program has not handled the answer, so the intent must be sent again.
			m.keep = true
		}
	}
	return errors.Join(err, resp.Body.Close())
}

// met returns the meeting for an error of the client.
func met(err error) meeting {
	var e *retry.Error
	switch {
	case !errors.As(err, &e) || e.Attempts > 0:
		return fails
	case e.Reason == retry.ReasonOpen:
		return shut
	}
	return nothing
}

// excuse reports whether an answer only says that the server cannot answer now.
func excuse(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// resumed connects Resume with the transport, by the context of a request.
type resumed struct {
	journal Journal
	id      string // the ID of the intent, until the intent begins
	trust   bool   // the request may be sent although the budget is empty

	paid    *retry.Budget // the budget that has paid for the request; nil if none has paid
	trusted bool          // the request was sent without a price
	refused bool          // the budget was empty, so the request was not sent

	begun   bool
	unsent  bool // the journal has refused the request
	keep    bool // Options.Answer has returned an error
	outcome Proof
}

type keyOfResumed struct{}

var errUnpaid = errors.New("journal: the retry budget of the host is used up, so the request was not sent")

// pay takes the price of the request from the budget. Only the first call has an effect, because a redirect makes the transport call it again.
func (m *resumed) pay(b *retry.Budget) error {
	switch {
	case m.begun || b == nil:
	case b.Spend(retry.ClassUnknown):
		m.paid = b
	case m.trust:
		m.trusted = true
	default:
		m.refused = true
		return errUnpaid
	}
	m.begun = true
	return nil
}

// Begin calls j.Begin. Transports call the function Begin instead of the method j.Begin, so that [Resume] works: if Resume sends the request,
// Begin finds the ID of the intent in ctx, and takes the price of the redelivery from the budget b of the transport. If Begin returns an error,
// the request must not be sent.
func Begin(ctx context.Context, j Journal, in Intent, b *retry.Budget) (Intent, error) {
	if m, ok := ctx.Value(keyOfResumed{}).(*resumed); ok && m.journal == j {
		if err := m.pay(b); err != nil {
			return in, err
		}
		in.ID, m.id = m.id, "" // after a redirect, the next request begins its intent by name and not by ID
		got, err := j.Begin(ctx, in)
		m.unsent = err != nil
		return got, err
	}
	// Only Resume may begin an intent by its ID.
	in.ID = ""
	return j.Begin(ctx, in)
}

// endTime limits the time of End, because the caller of a request waits for End even if its context has ended.
const endTime = 5 * time.Second

// End calls j.End. Transports call the function End instead of the method j.End, so that [Resume] learns the outcome of the requests that it sends.
// The context that j.End receives ends after 5 seconds, and does not end when ctx ends. If j.End returns an error, the intent stays open.
func End(ctx context.Context, j Journal, in Intent, o Proof) error {
	if m, ok := ctx.Value(keyOfResumed{}).(*resumed); ok && m.journal == j {
		if m.keep || o == ProofUntouched { // this attempt had no effect, but earlier attempts of the intent may have had one
			o = ProofNone
		}
		m.outcome = o
	}
	// The outcome must be stored even if the caller has given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	return j.End(ctx, in, o)
}
