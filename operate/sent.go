package operate

import (
	"context"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// Sent is an event as a webhook: to which endpoints it is sent, and what has become of that.
type Sent struct {
	Tenant     string         `json:"tenant"`
	Deliveries []SentDelivery `json:"deliveries"`
	Cut        bool           `json:"deliveries_cut,omitempty"` // there may be more
}

// SentDelivery is the delivery of an event to one endpoint.
type SentDelivery struct {
	Endpoint string `json:"endpoint"`

	Delivery
}

// mostSent is how many pairs of an event and an endpoint of its tenant are looked up for one page.
const mostSent = 1000

// sent is an event of package webhook.
type sent struct {
	Sent

	typ  string
	at   time.Time
	from *OperationName
}

// sentOf returns what was sent to endpoints of the events with these IDs. It reads by indexes: each event, and for each the endpoints of its tenant.
func (w *Webhooks) sentOf(ctx context.Context, ids []string) (map[string]*sent, error) {
	of, read := map[string]*sent{}, 0
	args := make([]any, 0, len(ids)+1)
	for _, id := range ids {
		args = append(args, id)
	}
	query := `select v.uid, v.tenant, v.type, v.created_at, v.op_scope, v.op_key, e.uid, d.event, d.due_at, d.attempts, a.at, a.micros, a.status, a.error, a.size, a.cause
 from once_webhook_event v
 left join once_webhook_endpoint e on e.tenant = v.tenant and e.deleted_at is null
 left join once_webhook_delivery d on d.endpoint = e.id and d.event = v.id
 left join once_webhook_attempt a on a.id = (select max(m.id) from once_webhook_attempt m where m.endpoint = e.id and m.event = v.id)
 where v.uid in (?` + strings.Repeat(", ?", len(ids)-1) + `) order by v.id, e.id limit ?`
	err := w.db.Pool().Query(ctx, statement(w.db, query, append(args, int64(mostSent))...), func(row sqlplane.Row) error {
		read++
		return scanSent(row, of)
	})
	if sqlguard.IsMissing(err) {
		return nil, nil //nolint:nilnil // no webhooks are sent
	}
	for _, s := range of {
		s.Cut = read == mostSent
	}
	return of, err
}

// scanSent adds what a row says: an event, and one endpoint of its tenant.
func scanSent(row sqlplane.Row, of map[string]*sent) error {
	var uid, scope, key string
	var one sent
	var endpoint, failure, cause *string
	var waits, failures, micros, status, size *int64
	var due, at time.Time
	err := row.Scan(&uid, &one.Tenant, &one.typ, (*dialect.Time)(&one.at), &scope, &key, &endpoint, &waits, (*dialect.Time)(&due), &failures, (*dialect.Time)(&at), &micros, &status, &failure, &size, &cause)
	if err != nil {
		return err
	}
	s := of[uid]
	if s == nil {
		s = &one
		s.Deliveries, s.at = []SentDelivery{}, utc(s.at)
		if key != "" {
			s.from = &OperationName{scope, key, keyname.Hashes(key)[0]}
		}
		of[uid] = s
	}
	if endpoint == nil || waits == nil && micros == nil { // it is not for this endpoint
		return nil
	}
	d := Delivery{Event: uid, Type: s.typ, State: string(webhook.DeliveryDelivered), CreatedAt: shown(s.at), DueAt: shownOrNil(due)}
	if waits != nil {
		d.State, d.Failures = string(webhook.DeliveryWaiting), int(*failures)
		if due.IsZero() {
			d.State = string(webhook.DeliveryStopped)
		}
	}
	if micros != nil {
		took := time.Duration(*micros) * time.Microsecond
		d.Last = &DeliveryAttempt{At: shown(at), Seconds: took.Seconds(), Status: int(*status), Error: *failure, Bytes: *size, Cause: *cause}
	}
	s.Deliveries = append(s.Deliveries, SentDelivery{*endpoint, d})
	return nil
}

// addTo adds what is known of the event as a webhook. One that no outbox has gets the state that needs a person most.
func (s *sent) addTo(e *Event) {
	e.Sent = &s.Sent
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
