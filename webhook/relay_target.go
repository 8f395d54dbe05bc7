package webhook

import (
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
)

// target is an endpoint whose part this process holds: its settings, its health and its running deliveries. The
// lock of the board guards it.
type target struct {
	id      int64  // id, uid and part never change, so they may be read without the lock of the board
	uid     string // in the API
	part    int
	version int64
	settings

	health

	locked atomic.Int64 // deliveries whose outcomes cannot be written, because other transactions have locked their rows

	window  int            // the maximum number of concurrent requests; it grows with successes
	running int            // requests that are running
	slow    int            // the running requests that are slow
	known   bool           // at least one request was answered
	flight  map[int64]bool // deliveries by event: true until the outcome is written, and then false until the current claim ends, because this claim may still find the old row
	tokens  float64        // how many deliveries the rate allows now
	counted time.Time

	own   int       // requests in a row that have failed because of this process or its network
	doubt time.Time // the first failure that could also be a fault of this process's network

	at      time.Time // the time of the next look at the target
	from    bound     // as far as this process knows, no earlier delivery waits
	wakes   int       // the number of wakes, to detect a wake during a claim
	claimed bool      // a claim of the target is running
	likely  bool      // a delivery is probably due
	waiting bool      // the target waits for a place for slow requests
	gone    bool      // this process does not hold its part any more, or the endpoint was deleted
	queued  int       // the queue in which the target is
	index   int       // the index in this queue; -1 if the target is in no queue
}

// settings are the settings that a person can change.
type settings struct {
	uid, tenant, url string
	headers          map[string]string
	signer           *Signer // signs with the latest secret
	both             *Signer // signs with the latest secret and with the previous one
	bothUntil        time.Time
	ordered          bool
	rate             float64
	concurrency      int
	disabled         bool
	broken           error // why the endpoint gets no deliveries: its secrets or headers cannot be decrypted
}

// health is the recent success or failure of an endpoint. It is stored in the database.
type health struct {
	failures int       // in a row
	since    time.Time // the time of the first of these failures
	until    time.Time // no attempt before it
	told     int       // the last warning of the owner, as a percentage of the time until the endpoint is disabled
	stored   bool      // the database has a row with this health
}

// signerAt returns the signer for an attempt at the time now.
func (s *settings) signerAt(now time.Time) *Signer {
	if s.both != nil && now.Before(s.bothUntil) {
		return s.both
	}
	return s.signer
}

// allowed returns how many requests may run at the same time.
func (t *target) allowed() int {
	// With an open circuit, one request is enough to learn whether the endpoint works again.
	if t.ordered || t.failures >= circuitFailures {
		return 1
	}
	return t.window
}

// idle reports whether no delivery of the target can begin now, so that the target needs no place in a queue.
func (t *target) idle() bool {
	return t.gone || t.disabled || t.broken != nil || t.claimed || t.waiting || t.running >= t.allowed() || t.ordered && t.pending() || len(t.flight) >= t.allowed()+unsettled
}

// pending reports whether a delivery is running, or an outcome is not written yet.
func (t *target) pending() bool {
	for _, underWay := range t.flight {
		if underWay {
			return true
		}
	}
	return false
}

// ready returns the time from which a delivery can begin.
func (t *target) ready(now time.Time) time.Time {
	at := t.at
	if t.until.After(at) {
		at = t.until
	}
	if t.rate > 0 {
		t.count(now)
		if wait := (1 - t.tokens) / t.rate; wait > 0 {
			if allowed := now.Add(time.Duration(wait * float64(time.Second))); allowed.After(at) {
				at = allowed
			}
		}
	}
	return at
}

// count adds the tokens of the passed time, at most the tokens of one second.
func (t *target) count(now time.Time) {
	// The first count gives one token, not the tokens of a full second: a restart must not send a burst.
	if t.counted.IsZero() {
		t.tokens = 1
	} else {
		t.tokens = min(max(1, t.rate), t.tokens+t.rate*now.Sub(t.counted).Seconds())
	}
	t.counted = now
}

// wake makes the target due for a look now, for deliveries at or after from. The caller has locked the board,
// and puts the target into a queue.
func (t *target) wake(from bound, now time.Time) {
	t.wakes++
	t.at, t.likely = now, true
	// The bound only moves back here: the new delivery may be earlier than all known ones.
	if from.isBefore(t.from, t.ordered) {
		t.from = from
	}
}

// wants returns how many deliveries may begin now.
func (t *target) wants() int {
	n := t.allowed() - t.running
	if t.rate > 0 {
		n = min(n, int(t.tokens))
	}
	return n
}

// succeeded records a success, and reports whether the state in the database must change.
func (t *target) succeeded() (changed bool) {
	t.window, t.known = min(t.window+1, t.concurrency), true
	changed = t.health != health{}
	t.health = health{}
	return changed // a state in the database is deleted
}

// failed records the failure of a request that began at the time began. If the circuit has opened while the
// request was in flight, the failure is not counted, because it contains no new information.
func (t *target) failed(began, now time.Time, asked time.Duration) {
	// As in TCP congestion control, an overloaded endpoint gets relief at once, and full speed slowly.
	t.window = max(1, t.window/2)
	if t.since.IsZero() {
		t.since = now
	}
	if began.Before(t.until) && now.Before(t.until) && t.failures >= circuitFailures {
		return
	}
	t.failures++
	pause := max(circuitPause(t.failures), min(asked, circuitMost))
	if until := now.Add(pause); pause > 0 && until.After(t.until) {
		t.until = until
	}
}

// delivery is a delivery that is running or about to begin.
type delivery struct {
	target   *target
	part     hold.Part
	done     func() // releases the part
	event    int64
	version  int64 // of the endpoint
	attempts int   // how many attempts have failed before
	cause    Cause
	due      int64 // the due time of the row, in microseconds since 1970: two calls of Resend have written different times

	uid, tenant, kind, trace string // of the event
	bytes                    int64
	slow, moved, over        bool // the request is slow; it has moved to a place for slow requests; it has ended
	cut                      bool // the end of Run has cancelled the request, so the attempt does not count
	ours                     bool // this process or its network has failed, so the attempt does not count
	answer                   answer
	waits                    int           // how often the row was locked when the relay wanted to write the outcome
	wait                     time.Duration // the pause until the next attempt; negative if no attempt follows
	steps                    int           // how many pauses of the schedule wait replaces
	state                    *health       // the health of the target, to be written to the database
	notice                   int           // the warning that the owner must get, as a percentage of the time until the endpoint is disabled
}

// note records the effect of a delivery on the health of its endpoint. The caller has locked the board. The
// parameter reached has the meaning that it has in [target.isOurs].
func (d *delivery) note(reached, now time.Time) {
	t, a := d.target, &d.answer
	switch {
	case d.cut:
		return
	case t.isOurs(a, reached, now):
		d.ours = true
		return
	case !a.delivered():
		t.failed(a.At, now, a.retryAfter)
		t.stored = true
	case !t.succeeded():
		return
	}
	state := t.health
	d.state = &state
}
