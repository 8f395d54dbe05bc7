package journal

import (
	"context"
	"errors"
	"net/http"
)

// Options configures [Resume]. The functions in Options may be called concurrently.
type Options struct {
	// Prepare adds headers that the journal does not store, such as Authorization. Prepare is called for each request, whatever the host of the
	// request is. So choose the secrets by r.URL.Host: otherwise a host gets the secrets of another host. If Prepare returns an error, the request
	// is not sent and the intent stays open. Default: nil, no headers are added.
	Prepare func(*http.Request, Intent) error

	// Answer is called with the last answer to a request; Resume closes the body afterwards. After some answers the outcome of the request is
	// still unknown, for example after a 500, or after a redirect to a login page. If the client has followed a redirect, the field Request of
	// the answer is not the request that Resume has sent. If Answer returns an error, the intent stays open, and a later Resume sends its request
	// again. Default: nil, answers are ignored.
	Answer func(Intent, *http.Response) error

	// Parallel is the largest number of requests that Resume sends at the same time. Resume begins with one request at a time for each host.
	// After each answer Resume allows one more request at the same time to this host, up to the Burst of the host's budget (10 by default).
	// Default: 4.
	Parallel int
}

// Resumed is the result of one call of [Resume]. Each field is a number of intents.
type Resumed struct {
	Closed int // intents whose outcome is known now, or that another process has closed
	Open   int // intents whose outcome is still not known; a later Resume sends their requests again
	Left   int // open intents whose requests were not sent because their host fails; a later Resume sends these requests
	Held   int // intents that wait for an operator
	Active int // intents that Resume skipped because a running request of this process uses the intent
}

// Resume sends the open intents of j again, each with its original key, and waits for the answers. Resume skips intents that running requests of
// this process use, and intents that are held for an operator.
//
// Resume adds little load to a host that is down. For each redelivery Resume takes the price of a retry from the client's budget for the host (see
// [retry.Budget]). If the host answers the request, Resume puts this price back, so that a healthy host gets the requests of all its intents. When
// the budget is empty, Resume sends one request at a time, and continues as long as each request is answered. If a host does not answer a request,
// Resume leaves the other intents of this host for a later call. Resume also leaves the intents of a host for later if the breaker of the host is
// open, or if a failing host has asked for a pause (Retry-After). The oldest intents are sent first. After a failure Resume sends the remaining
// intents in random order, so that an intent that always fails does not block the other intents.
//
// The parameter client must use a retryhttp.Transport whose Journal is j, because this transport closes the intents. The error of Resume joins
// the errors of the requests that got no answer, and the errors that Options.Answer has returned. If ctx ends, the remaining intents stay open.
func Resume(ctx context.Context, j Journal, client *http.Client, o Options) (Resumed, error) {
	list, err := j.List(ctx)
	if err != nil {
		return Resumed{}, err
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	r := resumption{Options: o, journal: j, client: client, hosts: map[string]*destination{}, ended: make(chan result)}
	for _, in := range list {
		switch {
		case in.Held != "":
			r.n.Held++
		case in.Active:
			r.n.Active++
		default:
			r.add(in)
		}
	}
	r.run(ctx)
	return r.n, errors.Join(r.errs...)
}

type resumption struct {
	Options

	journal Journal
	client  *http.Client

	hosts map[string]*destination
	ready []*destination // the destinations to which a request can be sent, in turn
	ended chan result

	n    Resumed
	errs []error
}

// run sends intents until none can be sent. All decisions are made in this goroutine; other goroutines only send requests.
func (r *resumption) run(ctx context.Context) {
	for busy := 0; ; busy-- {
		for busy < r.Parallel && len(r.ready) > 0 && ctx.Err() == nil {
			if r.start(ctx) {
				busy++
			}
		}
		if busy == 0 {
			break
		}
		r.take(<-r.ended)
	}
	for _, d := range r.hosts { // intents remain only if ctx has ended
		r.n.Open += d.rest()
	}
}

// start sends the next intent of the next destination, if this destination may send.
func (r *resumption) start(ctx context.Context) bool {
	d := r.ready[0]
	r.ready = r.ready[1:]
	d.queued = false
	// The destination may have changed since it was queued.
	if d.rest() == 0 || d.busy >= d.room {
		return false
	}
	in, trust := d.next(), d.broke
	d.busy++
	r.offer(d)
	go func() {
		e := r.send(ctx, in, trust)
		e.to, e.in = d, in
		r.ended <- e
	}()
	return true
}

// offer adds d to the queue, if d may send and is not in the queue.
func (r *resumption) offer(d *destination) {
	if !d.queued && d.rest() > 0 && d.busy < d.room {
		d.queued, r.ready = true, append(r.ready, d)
	}
}

// take counts the result of an intent.
func (r *resumption) take(e result) {
	d := e.to
	d.busy--
	if left := d.learn(&e, r.Parallel); left > 0 {
		r.n.Left += left
		r.n.Open += left
	}
	r.offer(d)
	switch {
	case e.meets == unpaid, e.meets == shut: // the intent is in the list again, or was counted as left
	case e.err != nil:
		r.n.Open++
		r.errs = append(r.errs, e.err)
	case e.outcome == ProofAnswered:
		r.n.Closed++
	case e.outcome == ProofExpired:
		r.n.Held++
	default:
		r.n.Open++
	}
}
