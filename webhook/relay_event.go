package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/outages"
)

// RelayObserver receives the events of a relay. The method Observe must return quickly. The ctx of Observe has
// the values of the ctx of [Relay.Run], and is never cancelled.
type RelayObserver interface {
	Observe(ctx context.Context, e RelayEvent)
}

// RelayEventType is the type of a [RelayEvent]. New types may be added.
type RelayEventType string

const (
	EventDelivered RelayEventType = "delivered" // an endpoint has confirmed a delivery
	EventFailed    RelayEventType = "failed"    // an attempt has failed; NextAt is the time of the next attempt
	EventRanOut    RelayEventType = "ran_out"   // the last attempt of a delivery has failed; the delivery waits for a person
	EventCircuit   RelayEventType = "circuit"   // an endpoint has failed several times in a row; from now on the relay tries only a single delivery from time to time
	EventDisabled  RelayEventType = "disabled"  // an endpoint is disabled: it has answered 410, or has failed for too long
	EventOurs      RelayEventType = "ours"      // a request could not be made because of this process or its network; the request does not count as an attempt, and is made again soon
	EventSealed    RelayEventType = "sealed"    // decryption or encryption has failed. If the secrets of the endpoint cannot be decrypted, all deliveries to the endpoint wait, and the relay tries again every minute until EventUnsealed; if the data of the event cannot be decrypted, only the delivery of this event waits; if an answer of the endpoint cannot be encrypted, the answer is not stored
	EventUnsealed  RelayEventType = "unsealed"  // the secrets of an endpoint could not be decrypted, and can be decrypted now; the relay sends the waiting deliveries
	EventDatabase  RelayEventType = "database"  // the database has failed; the relay waits
	EventTaken     RelayEventType = "taken"     // this process now serves more or fewer of the 64 parts into which the endpoints are divided
)

// RelayEvent is one event of a relay.
type RelayEvent struct {
	Type      RelayEventType
	Tenant    string
	Endpoint  string // the ID of the endpoint
	EventID   string // the header webhook-id
	EventType string
	Attempt   int           // the number of the attempt, from 1
	Status    int           // the HTTP status of the answer; 0 means that no answer was received
	Duration  time.Duration // the duration of the attempt
	NextAt    time.Time     // the time of the next attempt
	Err       error
	Parts     int // with EventTaken: how many parts this process serves, of the 64 parts into which all endpoints are divided
}

// RelayObservers returns an observer that passes each event to each observer of list, in order.
func RelayObservers(list ...RelayObserver) RelayObserver { return relayObservers(list) }

type relayObservers []RelayObserver

// Observe implements [RelayObserver].
func (o relayObservers) Observe(ctx context.Context, e RelayEvent) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// LogRelay returns an observer that writes failures to l: at level Error if a person must act, otherwise at
// Warn. A single failed attempt is written at level Debug, because the endpoints belong to other organizations.
// The same error of the database is written at most once a minute, and the end of an outage of the database is
// written at level Info, as is [EventUnsealed]. If l is nil, the observer writes to the logger that
// slog.Default() returns at the time of the event.
func LogRelay(l *slog.Logger) RelayObserver { return logObserver{l, new(outages.Log)} }

type logObserver struct {
	l       *slog.Logger
	outages *outages.Log
}

// Observe implements [RelayObserver].
func (o logObserver) Observe(ctx context.Context, e RelayEvent) {
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	level := slog.LevelWarn
	switch e.Type {
	case EventFailed:
		level = slog.LevelDebug
	case EventSealed:
		level = slog.LevelError
	case EventUnsealed:
		level = slog.LevelInfo
	case EventRanOut, EventCircuit, EventDisabled, EventOurs, EventDatabase:
	case EventDelivered, EventTaken:
		if lasted, over := o.outages.Works("", time.Now()); over {
			l.LogAttrs(ctx, slog.LevelInfo, "webhook: the database answers again", lasted)
		}
		return
	}
	var attrs []slog.Attr
	if e.Type == EventDatabase {
		omitted, ok := o.outages.Fails("", e.Err, time.Now())
		if !ok {
			return
		}
		attrs = append(attrs, omitted...)
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	for _, a := range [...]slog.Attr{slog.String("tenant", e.Tenant), slog.String("endpoint", e.Endpoint), slog.String("event_id", e.EventID), slog.Int("attempt", e.Attempt), slog.Int("status", e.Status)} {
		if !a.Value.Equal(slog.StringValue("")) && !a.Value.Equal(slog.IntValue(0)) {
			attrs = append(attrs, a)
		}
	}
	if !e.NextAt.IsZero() {
		attrs = append(attrs, slog.Time("next_at", e.NextAt))
	}
	l.LogAttrs(ctx, level, "webhook: "+string(e.Type), attrs...)
}
