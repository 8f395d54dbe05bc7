package journal

import (
	"math/rand/v2"
	"net/url"

	"github.com/oncelib/once/internal/base/hostname"
)

// maxStrays is the largest number of requests to a host that may end without a call of the journal. No budget pays for such requests, and their cause
// may be that the client does not use this journal.
const maxStrays = 10

// destination is a host with its intents to send. It decides how fast they are sent.
type destination struct {
	list []Intent
	at   int // index in list of the next intent to send

	queued bool
	busy   int // running requests
	room   int // how many may run
	most   int // how many its budget pays for at once; 0 if unknown
	earned int // answers since most is known

	failing bool // a request has failed
	strays  int  // requests without any record in the journal
	broke   bool // its budget is empty, and requests are sent on trust
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

// next returns the intent to send now.
func (d *destination) next() Intent {
	if d.failing || d.broke {
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

// leave stops sending to the host until the next call of Resume, and returns the number of intents that were not sent.
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
		if d.earned++; d.most > 0 && d.earned%10 == 0 { // a budget grows with its answers
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
		if d.busy > 0 { // the running requests have the price, and may bring it back
			d.most, d.room, d.earned = d.busy, d.busy, 0
			break
		}
		d.broke, d.room = true, 1
	case fails:
		d.failing, d.room = true, 1
		if e.trusted || e.later {
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
