package journal

import (
	"context"
	"errors"
	"net/http"
)

// Options of [Resume]. Its functions may be called concurrently.
type Options struct {
	// Prepare adds headers that the journal does not keep, such as Authorization. It is called for every host in the journal: choose the secrets by
	// r.URL.Host, so that no host gets those of another. Its error leaves the intent open. Default: nothing is added.
	Prepare func(*http.Request, Intent) error

	// Answer gets the last answer; its body is closed afterwards. The answer may leave the outcome open, like a 500, or like the login page of a
	// redirect, which has another Request. If Answer returns an error, the intent stays open, and will be resumed again. Default: the answer is
	// ignored.
	Answer func(Intent, *http.Response) error

	// Parallel is how many requests may run at the same time. For each host it begins with one and adds one with each answer, up to the number that
	// the host's budget pays for at once (Burst, 10 by default). Default 4.
	Parallel int
}

// Resumed is the result of a call of [Resume].
type Resumed struct {
	Closed int // their outcome is known now, or another process has closed them
	Open   int // their outcome is not known: they can be resumed again
	Left   int // open ones that were not sent, because their host is failing: resume them later
	Held   int // they wait for a person
	Active int // skipped, because a running request of this process has them
}

// Resume sends the open intents of j again, each with its key, and waits for the answers. It skips intents of running requests of this process, and
// intents that are held for a person.
//
// It does not add to an outage. Each redelivery is paid for, like a retry, from the budget of the client for that host (see [retry.Budget]), and gets
// its price back if it is answered: so a healthy host gets all of its intents. When the budget is empty, one further request at a time is sent, as
// long as each is answered; after one without an answer the rest of that host is left for later. The same happens if a breaker is open, or if a
// failing host has asked for a pause (Retry-After). The oldest are sent first; after a failure they are chosen at random, so that an intent that
// always fails does not block the rest.
//
// client must have a retryhttp.Transport with j as its Journal, because that closes the intents. The error names intents without an answer, and
// errors of Options.Answer. If ctx ends, the remaining intents stay open.
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
	ready []*destination // destinations to which a request can be sent, in turn
	ended chan result

	n    Resumed
	errs []error
}

// run sends intents until none can be sent any more. It makes all decisions in this goroutine; other goroutines only send requests.
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
	for _, d := range r.hosts { // ctx has ended
		r.n.Open += d.rest()
	}
}

// start sends the next intent of the destination whose turn it is, if it still has one.
func (r *resumption) start(ctx context.Context) bool {
	d := r.ready[0]
	r.ready = r.ready[1:]
	d.queued = false
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

// offer queues d for its turn, if it can send.
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
	case e.meets == unpaid, e.meets == shut: // it belongs to the rest again, or was given up with it
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
