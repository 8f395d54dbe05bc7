package retry

import "time"

// EventType is what an [Event] tells. The set may grow.
type EventType string

const (
	EventFailed EventType = "failed" // an attempt; Wait or Stop says what follows
	EventResent EventType = "resent" // it failed on a dead connection, and is sent again for free
	EventHedged EventType = "hedged" // a second attempt was sent in parallel
	EventDone   EventType = "done"   // the call: it has succeeded, or, with Err, got an answer that is final
	EventEnded  EventType = "ended"  // the call, without another attempt: in a pause, or by a breaker
)

// Event is what a call has come to. The last one of each call is [Event.Final]; one that
// cannot begin, because its key has expired, say, has none.
type Event struct {
	Type    EventType
	Attempt int // 1, 2, ...: so many were made
	Class   Class
	Err     error
	Wait    time.Duration // before the next attempt
	Stop    Reason        // why there is none; "": there is one, or it has succeeded

	Method string // of the request; from package retryhttp
	URL    string // without user and query, which may be secret
}

// Final reports whether no other event of the call follows.
func (e Event) Final() bool { return e.Type == EventDone || e.Stop != "" }
