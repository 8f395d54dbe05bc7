package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// Options of [Resume].
type Options struct {
	// Prepare adds to a request what the journal does not keep, such as Authorization.
	// Its error leaves the intent open. Default: nothing.
	Prepare func(*http.Request, Intent) error

	// Answer takes the last answer; its body is closed afterwards. It need not settle
	// anything: a 500, or the login page that a redirect has led to, which has another
	// Request. An error leaves the intent open, and it will be resumed again. Default: the
	// answer is not looked at.
	Answer func(Intent, *http.Response) error

	// Parallel is how many requests are under way at the same time. Default 4.
	Parallel int
}

// Resumed is how a call of [Resume] has ended.
type Resumed struct {
	Closed int // their outcome is known now
	Open   int // it is not: they can be resumed again
	Held   int // they wait for a person
	Active int // a request of this process has them, and was left alone
}

// Resume sends the open intents of j again, each with the key it had, and waits for their
// answers. What a request of this process has at the moment, and what is held for a
// person, is left alone.
//
// client must have a retryhttp.Transport with j as its Journal: it is what closes intents.
// The error tells of those that were not answered, or whose answer was not taken. If ctx
// ends, what was not resumed stays open.
func Resume(ctx context.Context, j Journal, client *http.Client, o Options) (Resumed, error) {
	list, err := j.List(ctx)
	if err != nil {
		return Resumed{}, err
	}
	r := resumption{Options: o, journal: j, client: client}
	next := make(chan Intent)
	var workers sync.WaitGroup
	for range max(1, min(len(list), or(o.Parallel, 4))) {
		workers.Go(func() {
			for in := range next {
				if ctx.Err() == nil {
					r.count(r.send(ctx, in))
				} else {
					r.count(Unknown, nil)
				}
			}
		})
	}
	for _, in := range list {
		switch {
		case in.Held != "":
			r.count(Expired, nil)
		case in.Active:
			r.active()
		default:
			next <- in
		}
	}
	close(next)
	workers.Wait()
	return r.n, errors.Join(r.errs...)
}

func or(n, other int) int {
	if n > 0 {
		return n
	}
	return other
}

type resumption struct {
	Options

	journal Journal
	client  *http.Client

	mu   sync.Mutex
	n    Resumed
	errs []error
}

func (r *resumption) count(o Outcome, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.n.Open++
		r.errs = append(r.errs, err)
	case o == Answered:
		r.n.Closed++
	case o == Expired:
		r.n.Held++
	default:
		r.n.Open++
	}
}

func (r *resumption) active() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n.Active++
}

// send sends the request of an intent, and returns what became of it.
func (r *resumption) send(ctx context.Context, in Intent) (Outcome, error) {
	fail := func(err error) (Outcome, error) {
		return Unknown, fmt.Errorf("journal: the intent with the key %s: %w", in.Key, err)
	}
	m := &resumed{journal: r.journal}
	req, err := http.NewRequestWithContext(context.WithValue(ctx, keyOfResumed{}, m), in.Method, in.URL, bytes.NewReader(in.Body))
	if err != nil {
		return fail(err)
	}
	req.Header = in.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	if req.Header.Get("X-Idempotency-Key") == "" {
		req.Header["Idempotency-Key"] = []string{in.Key}
	}
	if r.Prepare != nil {
		if err := r.Prepare(req, in); err != nil {
			return fail(err)
		}
	}
	resp, err := r.client.Do(req)
	if err == nil {
		if r.Answer != nil {
			if err = r.Answer(in, resp); err != nil {
				m.keep = true
			}
		}
		err = errors.Join(err, resp.Body.Close())
		if err != nil {
			return fail(err)
		}
	}
	if err != nil && m.outcome == Unknown {
		return fail(err)
	}
	if !m.begun {
		return fail(errors.New("the client does not use this journal. Try: the client whose retryhttp.Transport has it in its field Journal"))
	}
	return m.outcome, nil
}

// resumed is what a transport and Resume tell each other, by the context of a request.
type resumed struct {
	journal Journal
	begun   bool
	keep    bool // the answer was not taken
	outcome Outcome
}

type keyOfResumed struct{}

// Begin is j.Begin for transports: it lets [Resume] know that its intents are looked after.
func Begin(ctx context.Context, j Journal, in Intent) (Intent, error) {
	if m, ok := ctx.Value(keyOfResumed{}).(*resumed); ok && m.journal == j {
		m.begun = true
	}
	return j.Begin(ctx, in)
}

// End is j.End for transports.
func End(ctx context.Context, j Journal, in Intent, o Outcome) error {
	if m, ok := ctx.Value(keyOfResumed{}).(*resumed); ok && m.journal == j {
		if m.keep || o == Untouched { // of whoever was there before nothing is known
			o = Unknown
		}
		m.outcome = o
	}
	return j.End(context.WithoutCancel(ctx), in, o)
}
