package webhook

import "time"

// Endpoint is a URL of a tenant to which events are sent.
type Endpoint struct {
	ID     string // ep_...; New ones get one
	Tenant string
	URL    string

	// Types are the types of events that it wants: "refund.succeeded", "refund.*" for all that begin with "refund.", or "*" for all, also those that do not exist yet.
	Types []string

	Description string
	Headers     map[string]string // that are added to each request; webhook-* are not among them

	Ordered     bool    // one delivery at a time, in the order of events; one that fails keeps the later ones waiting
	Rate        float64 // deliveries per second; 0: no limit
	Concurrency int     // deliveries at a time; 0: that of the relay

	DisabledAt time.Time // zero: it gets what is sent
	DisabledBy Disabled

	CreatedAt time.Time
	Version   int64 // grows with each change
}

// Disabled says who has disabled an endpoint.
type Disabled string

const (
	DisabledByPerson  Disabled = "person"
	DisabledByGone    Disabled = "gone"    // it has answered 410
	DisabledByFailing Disabled = "failing" // for too long
)

// Event is what has happened, for the endpoints of a tenant that want its type.
type Event struct {
	ID     string // the header webhook-id of all deliveries. Default: a new one, which begins with msg_
	Tenant string
	Type   string // such as "refund.succeeded"
	Data   []byte // the body of each request, as it is
}

// Cause is why a delivery was attempted.
type Cause string

const (
	CauseSchedule Cause = ""        // its time had come
	CauseResend   Cause = "resend"  // a person has sent it again
	CauseRecover  Cause = "recover" // a person has sent again what ran out
	CauseReplay   Cause = "replay"  // a person has sent what was missed
	CauseTest     Cause = "test"
)

// Attempt is one request to an endpoint.
type Attempt struct {
	At       time.Time
	Duration time.Duration
	Status   int    // of the answer; 0: there was none
	Error    string // a class, such as "timeout"; "": none
	Size     int64  // of the answer's body, as far as it was read
	Answer   []byte // its beginning
	Cause    Cause
}
