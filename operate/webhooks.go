package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// Webhooks gives access to the webhook endpoints of all tenants, and to the deliveries to these endpoints.
type Webhooks struct {
	db sqlplane.Database
	of func(By) *webhook.Endpoints
}

// Endpoint is an endpoint of webhooks, without its headers and secrets.
type Endpoint struct {
	ID           string     `json:"id"`
	Tenant       string     `json:"tenant"`
	URL          string     `json:"url"`
	Types        []string   `json:"types"`
	Ordered      bool       `json:"ordered,omitempty"`
	PublicKey    string     `json:"public_key,omitempty"` // set if the secret of the endpoint is a private key
	State        string     `json:"state"`                // one of EndpointActive to EndpointDisabled
	DisabledBy   string     `json:"disabled_by,omitempty"`
	DisabledAt   *time.Time `json:"disabled_at,omitempty"`
	Failures     int        `json:"failures"` // the number of failed attempts since the last success
	FailingSince *time.Time `json:"failing_since,omitempty"`
	PausedUntil  *time.Time `json:"paused_until,omitempty"` // no attempt is made before this time, because the circuit breaker of the endpoint is open
	DueSince     *time.Time `json:"due_since,omitempty"`    // since when the oldest due delivery is due
	CreatedAt    time.Time  `json:"created_at"`

	Now time.Time `json:"-"` // the time of the database's clock when this value was read
}

// The constants are the states of endpoints of webhooks.
const (
	EndpointActive   = "active"
	EndpointFailing  = "failing"  // the last attempt has failed
	EndpointDisabled = "disabled" // nothing is sent to the endpoint
)

// EndpointOpen is a value of [EndpointFilter].State. EndpointOpen chooses failing endpoints whose circuit breaker is open. While the circuit breaker
// of an endpoint is open, nothing is sent to the endpoint.
const EndpointOpen = "open"

// EndpointFilter chooses endpoints. The zero value of EndpointFilter chooses all endpoints.
type EndpointFilter struct {
	Window

	State  string // one of active, failing, open and disabled; "" means all states
	Tenant string // endpoints of this tenant; "" means all tenants

	// If Tenant is "", Most limits the number of endpoints that are read from the database to fill the page; if the limit has ended the page, Page.Cut
	// is true. 0 means no limit.
	Most int
}

var endpointStates = map[string]string{
	"":               "",
	EndpointActive:   " and e.disabled_at is null and coalesce(s.failures, 0) = 0",
	EndpointFailing:  " and e.disabled_at is null and s.failures > 0",
	EndpointOpen:     " and e.disabled_at is null and s.circuit_until > NOW",
	EndpointDisabled: " and e.disabled_at is not null",
}

// Endpoints returns the endpoints that match f, in the order of their creation.
func (w *Webhooks) Endpoints(ctx context.Context, f EndpointFilter) (p Page[Endpoint], err error) {
	in, ok := endpointStates[f.State]
	if !ok {
		return p, errors.New("operate: the state " + f.State + " does not exist. Try: active, failing, open or disabled")
	}
	args, end := []any{f.After}, ""
	if f.Tenant != "" { // a tenant has some hundred endpoints at most
		in += " and e.tenant = ?"
		args = append(args, f.Tenant)
	} else if end, err = w.end(ctx, f); err != nil {
		return p, err
	}
	if end != "" {
		in += " and e.uid <= ?"
		args = append(args, end)
	}
	// One row more than the page has shows whether a next page exists.
	list, err := w.list(ctx, "e.uid > ?"+in, append(args, int64(f.limit()+1))...)
	p = pageOf(list, f.Window, func(e Endpoint) string { return e.ID })
	// The limit has ended the page: later endpoints may match too.
	if p.Next == "" && end != "" {
		p.Next, p.Cut = end, true
	}
	return p, err
}

// end returns the last endpoint that f.Most allows to read, or "" if fewer exist.
func (w *Webhooks) end(ctx context.Context, f EndpointFilter) (end string, err error) {
	if f.Most <= 0 || f.State == "" { // all are read in their order
		return "", nil
	}
	query := statement(w.db, "select uid from once_webhook_endpoint where uid > ? order by uid limit 1 offset ?", f.After, int64(f.Most))
	err = w.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&end) })
	return end, err
}

// Endpoint returns the endpoint with this ID, or [webhook.ErrNotFound].
func (w *Webhooks) Endpoint(ctx context.Context, id string) (Endpoint, error) {
	list, err := w.list(ctx, "e.uid = ?", id, int64(1))
	if err == nil && len(list) == 0 {
		err = webhook.ErrNotFound
	}
	if err != nil {
		return Endpoint{}, err
	}
	return list[0], nil
}

func (w *Webhooks) list(ctx context.Context, where string, args ...any) (list []Endpoint, err error) {
	query := `select e.uid, e.tenant, e.url, e.types, e.ordered, e.public_key, e.disabled_at, e.disabled_by, e.created_at, coalesce(s.failures, 0), s.failing_since, s.circuit_until,
 (select min(d.due_at) from once_webhook_delivery d where d.endpoint = e.id), NOW
 from once_webhook_endpoint e left join once_webhook_state s on s.endpoint = e.id where e.deleted_at is null and ` + where + " order by e.uid limit ?"
	err = w.db.Pool().Query(ctx, statement(w.db, query, args...), func(row sqlplane.Row) error {
		var e Endpoint
		var types string
		var disabled, since, until, due time.Time
		var failures int64
		err := row.Scan(&e.ID, &e.Tenant, &e.URL, &types, &e.Ordered, &e.PublicKey, (*dialect.Time)(&disabled), &e.DisabledBy, (*dialect.Time)(&e.CreatedAt), &failures,
			(*dialect.Time)(&since), (*dialect.Time)(&until), (*dialect.Time)(&due), (*dialect.Time)(&e.Now))
		e.Types, e.Failures = strings.Fields(types), int(failures)
		e.CreatedAt, e.Now = shown(e.CreatedAt), shown(e.Now)
		e.DisabledAt, e.FailingSince = shownOrNil(disabled), shownOrNil(since)
		// After this time the relay makes attempts again.
		if until.After(e.Now) {
			e.PausedUntil = shownOrNil(until)
		}
		// A delivery that is due later only waits for its next attempt.
		if !due.After(e.Now) {
			e.DueSince = shownOrNil(due)
		}
		switch {
		case e.DisabledAt != nil:
			e.State = EndpointDisabled
		case e.Failures > 0:
			e.State = EndpointFailing
		default:
			e.State = EndpointActive
		}
		list = append(list, e)
		return err
	})
	return list, err
}

// Delivery describes the delivery of one event to one endpoint: the state of the delivery, and its last attempt.
type Delivery struct {
	Event     string           `json:"event"`
	Type      string           `json:"type"`
	State     string           `json:"state"` // one of waiting, stopped and delivered
	CreatedAt time.Time        `json:"created_at"`
	DueAt     *time.Time       `json:"due_at,omitempty"`
	Failures  int              `json:"failures"`
	Last      *DeliveryAttempt `json:"last_attempt,omitempty"`
	Operation *OperationName   `json:"operation,omitempty"` // the operation that has sent the event; set only by the method Delivery
}

// DeliveryAttempt is one HTTP request that sends an event to an endpoint.
type DeliveryAttempt struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Status  int       `json:"status,omitempty"` // the HTTP status of the answer
	Error   string    `json:"error,omitempty"`  // one word that says why no answer was received
	Bytes   int64     `json:"answer_bytes"`
	Answer  string    `json:"answer,omitempty"` // the beginning of the answer's body
	Cause   string    `json:"cause,omitempty"`  // one of resend, recover, replay and test; "" for an ordinary attempt
}

// DeliveryFilter chooses deliveries of an endpoint. The zero value of DeliveryFilter chooses all deliveries.
type DeliveryFilter struct {
	Window

	State string // one of waiting, stopped and delivered

	// Most limits the number of deliveries or attempts that are read from the database to fill the page; if the limit has ended the page, Page.Cut is
	// true. 0 means no limit.
	Most int
}

// Deliveries returns the deliveries of an endpoint that match f; the delivery of the latest event is first.
func (w *Webhooks) Deliveries(ctx context.Context, endpoint string, f DeliveryFilter) (p Page[Delivery], err error) {
	switch state := webhook.DeliveryState(f.State); state {
	case "", webhook.DeliveryWaiting, webhook.DeliveryStopped, webhook.DeliveryDelivered:
	default:
		return p, errors.New("operate: the state " + f.State + " does not exist. Try: waiting, stopped or delivered")
	}
	e, err := w.Endpoint(ctx, endpoint)
	if err != nil {
		return p, err
	}
	from, err := w.from(ctx, e, f)
	if err != nil {
		return p, err
	}
	list, more, err := w.of(By{}).Deliveries(ctx, e.Tenant, e.ID, webhook.DeliveryFilter{State: webhook.DeliveryState(f.State), Before: f.After, From: from, Limit: f.limit()})
	p.Items = append([]Delivery{}, convert(list, deliveryOf)...)
	switch {
	case more:
		p.Next = list[len(list)-1].Event
	// The limit has ended the page: earlier events may match too.
	case from != "":
		p.Next, p.Cut = from, true
	}
	return p, err //nolint:wrapcheck // it is of package webhook
}

// from returns the first event that f.Most allows to read, latest first; "" if all may be read.
func (w *Webhooks) from(ctx context.Context, e Endpoint, f DeliveryFilter) (from string, err error) {
	table := "once_webhook_delivery"
	if f.State == string(webhook.DeliveryDelivered) { // a delivered event has only attempts
		table = "once_webhook_attempt"
	}
	if f.Most <= 0 || f.State == "" { // all are read in their order
		return "", nil
	}
	before, args := "", []any{e.ID}
	if f.After != "" {
		before, args = " and event < (select id from once_webhook_event where uid = ?)", append(args, f.After)
	}
	last := "(select event from " + table + " where endpoint = (select id from once_webhook_endpoint where uid = ?)" + before + " order by event desc limit 1 offset ?)"
	query := statement(w.db, "select uid from once_webhook_event where tenant = ? and id >= "+last+" order by id limit 1", append(append([]any{e.Tenant}, args...), int64(f.Most))...)
	err = w.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&from) })
	return from, err
}

// Delivery returns the delivery of an event to an endpoint, and its attempts, the last attempt first.
func (w *Webhooks) Delivery(ctx context.Context, endpoint, event string) (d Delivery, attempts []DeliveryAttempt, err error) {
	e, err := w.Endpoint(ctx, endpoint)
	if err != nil {
		return d, nil, err
	}
	one, tried, err := w.of(By{}).Delivery(ctx, e.Tenant, e.ID, event)
	if err != nil {
		return d, nil, err //nolint:wrapcheck // it is of package webhook
	}
	d = deliveryOf(one)
	query := statement(w.db, "select op_scope, op_key from once_webhook_event where uid = ? and tenant = ? and op_key <> ''", event, e.Tenant)
	err = w.db.Pool().Query(ctx, query, func(row sqlplane.Row) error {
		d.Operation = new(OperationName)
		err := row.Scan(&d.Operation.Scope, &d.Operation.Key)
		d.Operation.KeyHash = keyname.Hashes(d.Operation.Key)[0]
		return err
	})
	return d, convert(tried, attemptOf), err
}

func deliveryOf(d webhook.Delivery) Delivery {
	one := Delivery{Event: d.Event, Type: d.Type, State: string(d.State), CreatedAt: shown(d.CreatedAt), DueAt: shownOrNil(d.DueAt), Failures: d.Failures}
	if !d.Last.At.IsZero() {
		last := attemptOf(d.Last)
		one.Last = &last
	}
	return one
}

func attemptOf(a webhook.Attempt) DeliveryAttempt {
	return DeliveryAttempt{At: shown(a.At), Seconds: a.Duration.Seconds(), Status: a.Status, Error: a.Error, Bytes: a.Size, Answer: string(a.Answer), Cause: string(a.Cause)}
}

// Data returns the data (the payload) of an event that was sent to an endpoint. See [webhook.Endpoints.Data].
func (w *Webhooks) Data(ctx context.Context, endpoint, event string) ([]byte, error) {
	e, err := w.Endpoint(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return w.of(By{}).Data(ctx, e.Tenant, event) //nolint:wrapcheck // it is of package webhook
}

// Preview returns the number of deliveries that Recover would make due if missed is false, and the number of deliveries that Replay would
// make if missed is true. more reports whether there may be further deliveries after the first n. See [webhook.Endpoints.Preview].
func (w *Webhooks) Preview(ctx context.Context, endpoint string, p webhook.Period, missed bool) (n int64, more bool, err error) {
	e, err := w.Endpoint(ctx, endpoint)
	if err != nil {
		return 0, false, err
	}
	return w.of(By{}).Preview(ctx, e.Tenant, endpoint, p, missed) //nolint:wrapcheck // it is of package webhook
}

// Resend makes the delivery of an event to an endpoint due now, so that the event is sent again. See [webhook.Endpoints.Resend].
func (w *Webhooks) Resend(ctx context.Context, by By, endpoint, event string) error {
	return w.change(ctx, by, endpoint, func(es *webhook.Endpoints, tenant string) error { return es.Resend(ctx, tenant, endpoint, event) })
}

// Recover makes the stopped deliveries of an endpoint in the period p due again, so that their events are sent again. Recover returns the number of
// deliveries that are due again. See [webhook.Endpoints.Recover].
func (w *Webhooks) Recover(ctx context.Context, by By, endpoint string, p webhook.Period) (recovered int64, err error) {
	err = w.change(ctx, by, endpoint, func(es *webhook.Endpoints, tenant string) (err error) {
		recovered, err = es.Recover(ctx, tenant, endpoint, p)
		return err //nolint:wrapcheck // it is of package webhook
	})
	return recovered, err
}

// Replay sends the events of the period p for which the endpoint has no delivery. Replay returns the number of events that it has sent. See
// [webhook.Endpoints.Replay].
func (w *Webhooks) Replay(ctx context.Context, by By, endpoint string, p webhook.Period) (replayed int64, err error) {
	err = w.change(ctx, by, endpoint, func(es *webhook.Endpoints, tenant string) (err error) {
		replayed, err = es.Replay(ctx, tenant, endpoint, p)
		return err //nolint:wrapcheck // it is of package webhook
	})
	return replayed, err
}

// Enable makes a disabled endpoint active: new events and the events that have waited are sent to the endpoint again. See [webhook.Endpoints.Enable].
func (w *Webhooks) Enable(ctx context.Context, by By, endpoint string) error {
	return w.change(ctx, by, endpoint, func(es *webhook.Endpoints, tenant string) error {
		_, err := es.Enable(ctx, tenant, endpoint)
		return err //nolint:wrapcheck // it is of package webhook
	})
}

// Disable stops all deliveries to an endpoint until Enable is called. See [webhook.Endpoints.Disable].
func (w *Webhooks) Disable(ctx context.Context, by By, endpoint string) error {
	return w.change(ctx, by, endpoint, func(es *webhook.Endpoints, tenant string) error {
		_, err := es.Disable(ctx, tenant, endpoint)
		return err //nolint:wrapcheck // it is of package webhook
	})
}

func (w *Webhooks) change(ctx context.Context, by By, endpoint string, fn func(es *webhook.Endpoints, tenant string) error) error {
	if err := by.check(); err != nil {
		return err
	}
	e, err := w.Endpoint(ctx, endpoint)
	if err != nil {
		return err
	}
	// Package webhook needs the tenant, which an operator need not know.
	return fn(w.of(by), e.Tenant)
}
