package retry

import "time"

// EventType is the type of an [Event]. The set may grow.
type EventType string

const (
	EventFailed EventType = "failed" // an attempt has failed; Wait or Stop says what follows
	EventResent EventType = "resent" // it failed on a dead connection, and is sent again without a price
	EventHedged EventType = "hedged" // a second attempt was sent in parallel
	EventDone   EventType = "done"   // the call has succeeded, or, with Err, got a final answer
	EventEnded  EventType = "ended"  // the call has ended without another attempt: in a pause, or by a breaker
)

// Event is an event of a call. The last one of each call is [Event.Final]. A call that cannot begin, for example because its key has expired, has no
// event.
type Event struct {
	Type    EventType
	Attempt int // 1, 2, ...: the number of attempts so far
	Class   Class
	Err     error
	Wait    time.Duration // before the next attempt
	Stop    Reason        // why no attempt follows; "" if one follows, or the call has succeeded

	Method string // of the request; from package retryhttp
	URL    string // without user and query, which may be secrets
}

// Final reports whether no other event of the call follows.
func (e Event) Final() bool { return e.Type == EventDone || e.Stop != "" }
