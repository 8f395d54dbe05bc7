package journal

import (
	"math/rand/v2"
	"net/url"

	"github.com/oncelib/once/internal/base/hostname"
)

// maxStrays is the largest number of requests to a host that may end without a record in the journal. No budget pays for such requests. The probable
// cause is a client that does not use this journal.
const maxStrays = 10

// destination is a host with the intents that must be sent to it. It decides how fast they are sent.
type destination struct {
	list []Intent
	at   int // index in list of the next intent to send

	queued bool
	busy   int // the number of running requests
	room   int // the number of requests that may run at the same time
	most   int // how many requests the budget pays for at the same time; 0 if not known
	earned int // the number of answers since most is known

	failing bool // a request has failed
	strays  int  // the number of requests without a record in the journal
	broke   bool // the budget is empty, and requests are sent without a price
}

func (r *resumption) add(in Intent) {
	host := ""
	if u, err := url.Parse(in.URL); err == nil {
		host = hostname.Canonical(u.Host)
	}
	d := r.hosts[host]
	if d == nil {
		d = &destination{room: 1}
		r.hosts[host] = d
	}
	d.list = append(d.list, in)
	r.offer(d)
}

func (d *destination) rest() int { return len(d.list) - d.at }

// next returns the intent that is sent next.
func (d *destination) next() Intent {
	if d.failing || d.broke {
		// After a failure the order is random, so that an intent that always fails does not block the others.
		i := d.at + rand.IntN(d.rest())
		d.list[d.at], d.list[i] = d.list[i], d.list[d.at]
	}
	d.at++
	return d.list[d.at-1]
}

func (d *destination) putBack(in Intent) {
	d.at--
	d.list[d.at] = in
}

// leave ends the sending to the host in this call of Resume. It returns the number of intents that were not sent.
func (d *destination) leave() int {
	left := d.rest()
	d.at = len(d.list)
	return left
}

// learn adapts the number of concurrent requests to the result of an intent. It returns how many other intents are left for a later call because of
// this result.
func (d *destination) learn(e *result, parallel int) (left int) {
	switch e.meets {
	case answers:
		if d.earned++; d.most > 0 && d.earned%10 == 0 { // answers give tokens back, so the budget grows
			d.most++
		}
		d.room = min(d.room+1, parallel)
		if d.most > 0 {
			d.room = min(d.room, d.most)
		}
		if d.broke = d.broke && e.trusted; d.broke {
			d.room = 1
		}
	case unpaid:
		d.putBack(e.in)
		if d.busy > 0 { // the running requests have taken the tokens, and their answers may give them back
			d.most, d.room, d.earned = d.busy, d.busy, 0
			break
		}
		// No request runs, so no token will come back. One request without a price finds out whether the host answers.
		d.broke, d.room = true, 1
	case fails:
		d.failing, d.room = true, 1
		// The request without a price was the last try, or the host has asked for a pause.
		if e.trusted || e.later {
			// Another request would only add load to a host that fails.
			return d.leave()
		}
	case shut:
		d.putBack(e.in)
		return d.leave()
	case astray:
		d.failing, d.room = true, 1
		if d.strays++; d.strays == maxStrays {
			return d.leave()
		}
	case nothing:
	}
	return 0
}
