package webhook

import (
	"context"
	"log/slog"
	"time"
)

// RelayObserver receives the events of a relay. Observe must be quick. Its ctx has the values of the ctx of [Relay.Run], and is never cancelled.
type RelayObserver interface {
	Observe(ctx context.Context, e RelayEvent)
}

// RelayEventType is the type of a [RelayEvent]. The set may grow.
type RelayEventType string

const (
	EventDelivered RelayEventType = "delivered" // an endpoint has confirmed a delivery
	EventFailed    RelayEventType = "failed"    // an attempt has failed; NextAt says when the next one is
	EventRanOut    RelayEventType = "ran_out"   // the last attempt has failed: the delivery waits for a person
	EventCircuit   RelayEventType = "circuit"   // an endpoint has failed several times in a row; now only a single delivery is tried from time to time
	EventDisabled  RelayEventType = "disabled"  // an endpoint is disabled: it has answered 410, or has failed for too long
	EventOurs      RelayEventType = "ours"      // a request could not be made because of this process or its network; it is not counted as an attempt, and is made again soon
	EventSealed    RelayEventType = "sealed"    // the endpoint's secrets or the event's data cannot be decrypted, so Endpoint, or its delivery of EventID, waits; or an answer cannot be encrypted, and is not kept
	EventDatabase  RelayEventType = "database"  // the database has failed; the relay waits
	EventTaken     RelayEventType = "taken"     // this process holds more or fewer parts than before
)

// RelayEvent is one thing that has happened to a relay.
type RelayEvent struct {
	Type      RelayEventType
	Tenant    string
	Endpoint  string // its ID
	EventID   string // webhook-id
	EventType string
	Attempt   int           // from 1
	Status    int           // of the answer; 0 means no answer
	Duration  time.Duration // of the attempt
	NextAt    time.Time     // of the next attempt
	Err       error
	Parts     int // EventTaken: how many of the 64 parts this process holds
}

// RelayObservers returns an observer that passes each event to each of list, in order.
func RelayObservers(list ...RelayObserver) RelayObserver { return relayObservers(list) }

type relayObservers []RelayObserver

// Observe implements [RelayObserver].
func (o relayObservers) Observe(ctx context.Context, e RelayEvent) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// LogRelay returns an observer that writes failures to l: at Error if a person must act, else at Warn. nil is slog.Default(), as it is at the moment
// of the event. A single failed attempt is at Debug, because the endpoints belong to others.
func LogRelay(l *slog.Logger) RelayObserver { return logObserver{l} }

type logObserver struct{ l *slog.Logger }

// Observe implements [RelayObserver].
func (o logObserver) Observe(ctx context.Context, e RelayEvent) {
	level := slog.LevelWarn
	switch e.Type {
	case EventFailed:
		level = slog.LevelDebug
	case EventSealed:
		level = slog.LevelError
	case EventRanOut, EventCircuit, EventDisabled, EventOurs, EventDatabase:
	case EventDelivered, EventTaken:
		return
	}
	var attrs []slog.Attr
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
	l := o.l
	if l == nil {
		l = slog.Default()
	}
	l.LogAttrs(ctx, level, "webhook: "+string(e.Type), attrs...)
}
