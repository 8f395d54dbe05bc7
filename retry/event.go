package retry

import "time"

// EventType is the type of an [Event]. Later versions may add types.
type EventType string

const (
	EventFailed EventType = "failed" // an attempt has failed; Event.Wait or Event.Stop says whether another attempt follows
	EventResent EventType = "resent" // an attempt failed on a dead connection; the request is sent again, and takes nothing from the budget
	EventHedged EventType = "hedged" // a second attempt was sent while the first attempt was running
	EventDone   EventType = "done"   // the call has succeeded; or, if Event.Err is set, the call has got a final answer that is a failure
	EventEnded  EventType = "ended"  // the call has ended without another attempt, because its context ended in a pause or a breaker refused the attempt
)

// Event is an event of one call of [Do] or of package retryhttp. [Event.Final] is true for the last event of a call. If a call does not begin,
// for example because its key has expired, the call has no event.
type Event struct {
	Type    EventType
	Attempt int // 1, 2, ...: the number of attempts so far
	Class   Class
	Err     error
	Wait    time.Duration // the pause before the next attempt
	Stop    Reason        // why no attempt follows; "" if an attempt follows, or if the call has succeeded

	Method string // the method of the request; set by package retryhttp only
	URL    string // the URL of the request without user and query, which may be secrets; set by package retryhttp only
}

// Final reports whether e is the last event of its call.
func (e Event) Final() bool { return e.Type == EventDone || e.Stop != "" }
