package operate

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// Sent has the deliveries of an event that was sent as a webhook, one delivery for each endpoint.
type Sent struct {
	Tenant     string         `json:"tenant"`
	Deliveries []SentDelivery `json:"deliveries"`
	Cut        bool           `json:"deliveries_cut,omitempty"` // true if a limit has ended the list, so that more deliveries may exist
}

// SentDelivery is the delivery of an event to one endpoint.
type SentDelivery struct {
	Endpoint string `json:"endpoint"`

	Delivery
}

// mostSent limits how many pairs of an event and an endpoint one call looks up.
const mostSent = 1000

// sent is an event of package webhook with its deliveries.
type sent struct {
	Sent

	typ  string
	at   time.Time
	from *OperationName
}

// sentOf returns the deliveries of the events with these IDs. Each query lists the numbers of its rows, so it uses an index whatever the planner
// expects. The first query reads the events with the endpoints of their tenants. The next ones read the waiting deliveries, the numbers of the last
// attempts, and these attempts.
func (w *Webhooks) sentOf(ctx context.Context, ids []string) (map[string]*sent, error) {
	l := &sentLook{of: map[string]*sent{}, pairs: map[pair]*SentDelivery{}}
	err := w.sentPairs(ctx, l, ids)
	if sqlguard.IsMissing(err) {
		// The tables of package webhook do not exist.
		return nil, nil //nolint:nilnil // no webhooks are sent
	}
	if err == nil && len(l.order) > 0 {
		err = w.sentWaiting(ctx, l)
	}
	if err == nil && len(l.order) > 0 {
		err = w.sentLast(ctx, l)
	}
	for _, p := range l.order {
		if d := l.pairs[p]; d.State != "" { // an empty state means that the endpoint does not get this event
			s := l.of[d.Event]
			s.Deliveries = append(s.Deliveries, *d)
		}
	}
	return l.of, err
}

// pair has the numbers of an endpoint and an event.
type pair struct{ endpoint, event int64 }

// sentLook has the results that sentOf has read so far.
type sentLook struct {
	of    map[string]*sent
	pairs map[pair]*SentDelivery
	order []pair
}

// among returns the condition that a row belongs to one of the endpoints and to one of the events. It also matches other pairs of them.
func (l *sentLook) among() (text string, args []any) {
	endpoints, events := map[int64]bool{}, map[int64]bool{}
	for _, p := range l.order {
		endpoints[p.endpoint], events[p.event] = true, true
	}
	in := func(column string, of map[int64]bool) string {
		for _, n := range slices.Sorted(maps.Keys(of)) {
			args = append(args, n)
		}
		return column + " in (?" + strings.Repeat(", ?", len(of)-1) + ")"
	}
	text = in("endpoint", endpoints) + " and " + in("event", events)
	return text, args
}

// sentPairs reads the events, and the endpoints of their tenants.
func (w *Webhooks) sentPairs(ctx context.Context, l *sentLook, ids []string) error {
	args := make([]any, 0, len(ids)+1)
	for _, id := range ids {
		args = append(args, id)
	}
	read := 0
	query := `select v.id, v.uid, v.tenant, v.type, v.created_at, v.op_scope, v.op_key, e.id, e.uid from once_webhook_event v
 left join once_webhook_endpoint e on e.tenant = v.tenant and e.deleted_at is null where v.uid in (?` + strings.Repeat(", ?", len(ids)-1) + `) order by v.id, e.id limit ?`
	err := w.db.Pool().Query(ctx, statement(w.db, query, append(args, int64(mostSent))...), func(row sqlplane.Row) error {
		read++
		var p pair
		var uid, scope, key string
		var one sent
		var number *int64
		var endpoint *string
		if err := row.Scan(&p.event, &uid, &one.Tenant, &one.typ, (*dialect.Time)(&one.at), &scope, &key, &number, &endpoint); err != nil {
			return err
		}
		if l.of[uid] == nil {
			one.Deliveries, one.at = []SentDelivery{}, utc(one.at)
			if key != "" {
				one.from = &OperationName{scope, key, keyname.Hashes(key)[0]}
			}
			l.of[uid] = &one
		}
		if number != nil {
			p.endpoint = *number
			l.order = append(l.order, p)
			l.pairs[p] = &SentDelivery{*endpoint, Delivery{Event: uid, Type: one.typ, CreatedAt: shown(one.at)}}
		}
		return nil
	})
	for _, s := range l.of {
		// The limit is for all events together, so each of the lists may be incomplete.
		s.Cut = read == mostSent
	}
	return err
}

// sentWaiting reads the deliveries that wait for their next attempt or for a person.
func (w *Webhooks) sentWaiting(ctx context.Context, l *sentLook) error {
	among, args := l.among()
	return w.db.Pool().Query(ctx, statement(w.db, "select endpoint, event, due_at, attempts from once_webhook_delivery where "+among, args...), func(row sqlplane.Row) error {
		var p pair
		var due time.Time
		var failures int64
		err := row.Scan(&p.endpoint, &p.event, (*dialect.Time)(&due), &failures)
		// The condition among also matches pairs that were not asked for.
		if d := l.pairs[p]; err == nil && d != nil {
			d.State, d.DueAt, d.Failures = string(webhook.DeliveryWaiting), shownOrNil(due), int(failures)
			if due.IsZero() {
				d.State = string(webhook.DeliveryStopped)
			}
		}
		return err
	})
}

// sentLast reads the last attempt of each pair. A delivery with an attempt and without a waiting row is delivered.
func (w *Webhooks) sentLast(ctx context.Context, l *sentLook) error {
	among, args := l.among()
	last := []any{}
	err := w.db.Pool().Query(ctx, statement(w.db, "select max(id) from once_webhook_attempt where "+among+" group by endpoint, event", args...), func(row sqlplane.Row) error {
		var id int64
		err := row.Scan(&id)
		last = append(last, id)
		return err
	})
	if err != nil || len(last) == 0 {
		return err
	}
	query := "select endpoint, event, at, micros, status, error, size, cause from once_webhook_attempt where id in (?" + strings.Repeat(", ?", len(last)-1) + ")"
	return w.db.Pool().Query(ctx, statement(w.db, query, last...), func(row sqlplane.Row) error {
		var p pair
		var a DeliveryAttempt
		var micros int64
		err := row.Scan(&p.endpoint, &p.event, (*dialect.Time)(&a.At), &micros, &a.Status, &a.Error, &a.Bytes, &a.Cause)
		a.At, a.Seconds = shown(a.At), (time.Duration(micros) * time.Microsecond).Seconds()
		if d := l.pairs[p]; err == nil && d != nil {
			if d.Last = &a; d.State == "" {
				d.State = string(webhook.DeliveryDelivered)
			}
		}
		return err
	})
}

// addTo adds the deliveries of a webhook to its event. An event that is in no outbox gets the state of the delivery that most needs a person.
func (s *sent) addTo(e *Event) {
	e.Sent = &s.Sent
	// The outbox knows the state of its own messages.
	if e.State != EventGone {
		return
	}
	e.Type, e.Added, e.Operation, e.State = s.typ, s.at, s.from, EventUnwanted
	rank := map[string]int{EventUnwanted: 0, EventDelivered: 1, EventWaiting: 2, EventFailing: 3, EventDead: 4}
	for _, d := range s.Deliveries {
		state := EventDelivered
		switch {
		case d.State == string(webhook.DeliveryStopped):
			state = EventDead
		case d.State == string(webhook.DeliveryWaiting) && d.Failures > 0:
			state = EventFailing
		case d.State == string(webhook.DeliveryWaiting):
			state = EventWaiting
		}
		if e.Attempts += d.Failures; rank[state] > rank[e.State] {
			e.State = state
		}
	}
}
