package journal

import (
	"context"
	"errors"
	"net/http"
)

// Options of [Resume]. Its functions may be called concurrently.
type Options struct {
	// Prepare adds to a request what the journal does not keep, such as Authorization. It
	// is asked for every host that is in the journal: give each only the secrets that are
	// meant for it, by r.URL.Host. Its error leaves the intent open. Default: nothing.
	Prepare func(*http.Request, Intent) error

	// Answer takes the last answer; its body is closed afterwards. It need not settle
	// anything: a 500, or the login page that a redirect has led to, which has another
	// Request. An error leaves the intent open, and it will be resumed again. Default: the
	// answer is not looked at.
	Answer func(Intent, *http.Response) error

	// Parallel is how many requests are under way at the same time, at most. Towards each
	// host it begins with one, another one is added with each answer, and there are no
	// more than its budget pays for at once (Burst, 10 by default). Default 4.
	Parallel int
}

// Resumed is how a call of [Resume] has ended.
type Resumed struct {
	Closed int // their outcome is known now, or another process has closed them
	Open   int // it is not: they can be resumed again
	Left   int // of those, what was not sent, because its host is failing: resume it later
	Held   int // they wait for a person
	Active int // a request of this process has them, and was left alone
}

// Resume sends the open intents of j again, each with the key it had, and waits for their
// answers. What a request of this process has at the moment, and what is held for a
// person, is left alone.
//
// It does not add to an outage. Each redelivery is paid for, as a retry is, from the
// budget of the client for that host (see [retry.Budget]), and gets its price back if it
// is answered: a host that is well is caught up with without limit. When the budget is
// empty, one more request is sent at a time, as long as each is answered; after one that
// is not the rest of that host is left for another time. So is what a breaker does not
// let through, or a host that fails has asked to keep for later (Retry-After). The
// oldest are sent first; once one has failed they are chosen by chance, so that what
// always fails does not stand in the way of the rest.
//
// client must have a retryhttp.Transport with j as its Journal: it is what closes intents.
// The error tells of those that were not answered, or whose answer was not taken. If ctx
// ends, what was not resumed stays open.
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
	ready []*destination // what can be sent to, in turn
	ended chan result

	n    Resumed
	errs []error
}

// run sends what can be sent until there is nothing more. All decisions are made here, and
// only the requests are made elsewhere.
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

// start sends the next intent of whose turn it is, if that one still has something to send.
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

// offer has d take its turn, if it can.
func (r *resumption) offer(d *destination) {
	if !d.queued && d.rest() > 0 && d.busy < d.room {
		d.queued, r.ready = true, append(r.ready, d)
	}
}

// take takes down what has become of an intent.
func (r *resumption) take(e result) {
	d := e.to
	d.busy--
	if left := d.learn(&e, r.Parallel); left > 0 {
		r.n.Left += left
		r.n.Open += left
	}
	r.offer(d)
	switch {
	case e.meets == unpaid, e.meets == shut: // it is one of the rest again, or was left with it
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
