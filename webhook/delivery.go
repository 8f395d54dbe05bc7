package webhook

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// DeliveryState is the state of a delivery.
type DeliveryState string

const (
	DeliveryWaiting   DeliveryState = "waiting"   // the delivery waits for its next attempt, or until its endpoint is enabled
	DeliveryStopped   DeliveryState = "stopped"   // all attempts have failed; the delivery waits for [Endpoints.Resend] or [Endpoints.Recover]
	DeliveryDelivered DeliveryState = "delivered" // the endpoint has answered 2xx
)

// Delivery is the delivery of one event to one endpoint.
type Delivery struct {
	Event     string // the ID of the event
	Type      string
	CreatedAt time.Time // when the event was sent
	State     DeliveryState
	DueAt     time.Time // if the delivery waits, the time of its next attempt
	Failures  int       // how many attempts have failed since the schedule began; if a long Retry-After replaces several pauses of RelayConfig.Schedule, each replaced pause counts as a failure
	Last      Attempt   // the last attempt, without the body of its answer; zero before the first attempt
}

// DeliveryFilter selects deliveries.
type DeliveryFilter struct {
	State  DeliveryState // "" means all states
	Before string        // an event ID: only deliveries of events that were sent before this event are listed
	From   string        // an event ID: events before this event are not read. Default: events of any age, up to Limit
	Limit  int           // at most 200; default 50
}

const (
	defaultLimit = 50
	mostListed   = 200
	mostAttempts = 100 // the maximum number of attempts of a delivery that are returned: the last ones
)

// Deliveries returns the deliveries of an endpoint, the latest event first. If the result more is true, older
// deliveries exist. To get the next page, set f.Before to the event ID of the last delivery in list. The error is
// [ErrNotFound], or an error of the database.
func (es *Endpoints) Deliveries(ctx context.Context, tenant, id string, f DeliveryFilter) (list []Delivery, more bool, err error) {
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, mostListed)
	endpoint, err := es.idOf(ctx, tenant, id)
	before := int64(1<<63 - 1)
	if err == nil && f.Before != "" {
		before, err = es.eventID(ctx, tenant, f.Before)
	}
	from := int64(0)
	if err == nil && f.From != "" {
		from, err = es.eventID(ctx, tenant, f.From)
	}
	if err != nil {
		return nil, false, err
	}
	page, args := f.page(endpoint, from, before)
	list, err = es.deliveries(ctx, page, endpoint, args)
	// The query reads one more row than the limit, to learn whether older deliveries exist.
	if len(list) > f.Limit {
		list, more = list[:f.Limit], true
	}
	return list, more, err
}

// page returns a query of the numbers of events. The query returns one more number than the limit.
func (f *DeliveryFilter) page(endpoint, from, before int64) (query string, args []any) {
	last := " order by event desc limit " + strconv.Itoa(f.Limit+1)
	waiting := "select event from once_webhook_delivery where endpoint = ? and event >= ? and event < ?"
	tried := "select distinct event from once_webhook_attempt a where endpoint = ? and event >= ? and event < ?"
	args = []any{endpoint, from, before}
	switch f.State {
	case DeliveryWaiting:
		return waiting + " and due_at is not null" + last, args
	case DeliveryStopped:
		return waiting + " and due_at is null" + last, args
	case DeliveryDelivered:
		// The bounds are given twice: if only the outer query had them, PostgreSQL might read all waiting
		// deliveries first.
		return tried + " and not exists (select 1 from once_webhook_delivery d where d.endpoint = a.endpoint and d.event = a.event and d.event >= ? and d.event < ?)" + last, append(args, from, before)
	}
	return "select event from (select event from (" + waiting + last + ") w union select event from (" + tried + last + ") t) u" + last, append(args, args...)
}

// deliveries reads the deliveries of the events whose numbers query returns. It leaves out deleted events,
// which are the oldest ones.
func (es *Endpoints) deliveries(ctx context.Context, query string, endpoint int64, args []any) (list []Delivery, err error) {
	text := `select v.uid, v.type, v.created_at, d.event, d.due_at, d.attempts, a.at, a.micros, a.status, a.error, a.size, a.cause from (` + query + `) x
 left join once_webhook_event v on v.id = x.event
 left join once_webhook_delivery d on d.endpoint = ? and d.event = x.event
 left join once_webhook_attempt a on a.id = (select max(m.id) from once_webhook_attempt m where m.endpoint = ? and m.event = x.event)
 order by x.event desc`
	err = es.db.Pool().Query(ctx, es.text(text, append(args, endpoint, endpoint)...), func(row sqlplane.Row) error {
		var d Delivery
		var a Attempt
		var uid, typ, failure, cause *string
		var waits, failures, micros, status, size *int64
		if err := row.Scan(&uid, &typ, (*dialect.Time)(&d.CreatedAt), &waits, (*dialect.Time)(&d.DueAt), &failures, (*dialect.Time)(&a.At), &micros, &status, &failure, &size, &cause); err != nil {
			return err
		}
		if uid == nil {
			// A sweep has already deleted the event.
			return nil
		}
		d.Event, d.Type, d.State = *uid, *typ, DeliveryDelivered
		if waits != nil {
			d.State, d.Failures = DeliveryWaiting, int(*failures)
			if d.DueAt.IsZero() {
				d.State = DeliveryStopped
			}
		}
		if micros != nil {
			a.Duration, a.Status, a.Error, a.Size, a.Cause = time.Duration(*micros)*time.Microsecond, int(*status), *failure, *size, Cause(*cause)
			d.Last = a
		}
		list = append(list, d)
		return nil
	})
	return list, err
}

// Delivery returns the delivery of an event to an endpoint, and the last 100 attempts with their answers, the
// latest first. Without an Encrypter, encrypted answers are left out. The error is [ErrNotFound], an error of
// the Encrypter, or an error of the database.
func (es *Endpoints) Delivery(ctx context.Context, tenant, id, event string) (d Delivery, attempts []Attempt, err error) {
	endpoint, err := es.idOf(ctx, tenant, id)
	var number int64
	if err == nil {
		number, err = es.eventID(ctx, tenant, event)
	}
	if err != nil {
		return d, nil, err
	}
	page, args := (&DeliveryFilter{Limit: 1}).page(endpoint, number, number+1)
	list, err := es.deliveries(ctx, page, endpoint, args)
	// Without a delivery of this event, the query returns a neighbour or nothing.
	if err != nil || len(list) == 0 || list[0].Event != event {
		if err == nil {
			err = ErrNotFound
		}
		return d, nil, err
	}
	query := es.text("select at, micros, status, error, size, answer, encrypted, cause, host from once_webhook_attempt where endpoint = ? and event = ? order by id desc limit "+strconv.Itoa(mostAttempts), endpoint, number)
	err = es.db.Pool().Query(ctx, query, func(row sqlplane.Row) (err error) {
		var a Attempt
		var micros, status int64
		var encrypted bool
		if err := row.Scan((*dialect.Time)(&a.At), &micros, &status, &a.Error, &a.Size, &a.Answer, &encrypted, (*string)(&a.Cause), &a.Host); err != nil {
			return err
		}
		a.Duration, a.Status = time.Duration(micros)*time.Microsecond, int(status)
		switch {
		// Operators may read attempts without the key of the service.
		case encrypted && es.cfg.Encrypter == nil:
			a.Answer = nil
		case len(a.Answer) > 0:
			a.Answer, err = es.cfg.open(a.Answer, encrypted, answerLabel(event))
		}
		attempts = append(attempts, a)
		return err
	})
	return list[0], attempts, err
}

// Data returns the data of an event of a tenant. The error is [ErrNotFound], an error of the Encrypter, or an
// error of the database.
func (es *Endpoints) Data(ctx context.Context, tenant, event string) (data []byte, err error) {
	found, encrypted := false, false
	query := es.text("select data, encrypted from once_webhook_event where uid = ? and tenant = ?", event, tenant)
	err = es.db.Pool().Query(ctx, query, func(row sqlplane.Row) error {
		found = true
		return row.Scan(&data, &encrypted)
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return es.cfg.open(data, encrypted, dataLabel(event))
}

// idOf returns the internal number of an endpoint of a tenant.
func (es *Endpoints) idOf(ctx context.Context, tenant, id string) (int64, error) {
	return es.number(ctx, es.db.Pool(), "select id from once_webhook_endpoint where uid = ? and tenant = ? and deleted_at is null", id, tenant)
}

// eventID returns the internal number of an event of a tenant.
func (es *Endpoints) eventID(ctx context.Context, tenant, event string) (int64, error) {
	return es.number(ctx, es.db.Pool(), "select id from once_webhook_event where uid = ? and tenant = ?", event, tenant)
}

func (es *Endpoints) number(ctx context.Context, r sqlplane.Runner, query string, args ...any) (n int64, err error) {
	found := false
	err = r.Query(ctx, es.text(query, args...), func(row sqlplane.Row) error { found = true; return row.Scan(&n) })
	if err == nil && !found {
		err = ErrNotFound
	}
	return n, err
}

// Resend delivers an event to an endpoint again, immediately, even if the endpoint has already received the
// event or does not want events of its type. If a delivery of the event is waiting, this delivery becomes due,
// and no second delivery is added. If an attempt is in flight, another attempt follows, even if the attempt in
// flight succeeds. The error is [ErrNotFound], [ErrDisabled], or an error of the database.
func (es *Endpoints) Resend(ctx context.Context, tenant, id, event string) error {
	defer es.note()
	return es.within(ctx, func(ctx context.Context, r sqlplane.Runner) error {
		// An attempt that is running must not write its outcome: the new cause makes its row look changed. If the attempt is one of Resend, the
		// new due time does. So two calls in the same instant must not write the same time.
		instant := words.Either(es.db.Dialect() == sqlplane.PostgreSQL, "interval '1 microsecond'", "1")
		n, err := r.Exec(ctx, es.text(`insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, NOW, 0, 'resend', v.created_at from once_webhook_endpoint e join once_webhook_event v on v.tenant = e.tenant
 where e.uid = ? and e.tenant = ? and e.disabled_at is null and v.uid = ?
 UPSERT(endpoint, event) attempts = case when once_webhook_delivery.due_at is null then 0 else once_webhook_delivery.attempts end,
 due_at = case when once_webhook_delivery.due_at between NOW and AGO(?) then once_webhook_delivery.due_at + `+instant+` else NOW end, cause = 'resend'`, id, tenant, event, -time.Second.Microseconds()))
		if err == nil && n == 0 {
			err = es.why(ctx, r, tenant, id)
		}
		if err != nil {
			return err
		}
		return es.audit(ctx, r, "resend", tenant, id+" "+event)
	})
}

// why returns the reason why a statement has found no enabled endpoint, or no event.
func (es *Endpoints) why(ctx context.Context, r sqlplane.Runner, tenant, id string) error {
	e, err := es.find(ctx, r, tenant, id)
	switch {
	case err != nil:
		return err
	case !e.DisabledAt.IsZero():
		return ErrDisabled
	}
	return ErrNotFound
}

// Test sends an event of the type [TypeTest] to one endpoint, and returns the event's ID. The error is
// [ErrNotFound], [ErrDisabled], or an error of the database.
func (es *Endpoints) Test(ctx context.Context, tenant, id string) (event string, err error) {
	defer es.note()
	event = newID("msg_")
	body := fmt.Sprintf(`{"type":%q,"timestamp":%q,"data":{"endpoint":%q}}`, TypeTest, time.Now().UTC().Format(time.RFC3339Nano), id)
	data, err := es.cfg.seal([]byte(body), dataLabel(event))
	if err != nil {
		return "", err
	}
	// A malformed ID must not reach the database.
	if !isID(id) {
		return "", ErrNotFound
	}
	err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) error {
		_, err := r.Exec(ctx, store.Statement{SQL: dialect.Text(es.db.Dialect(), insertEvent+"(?, ?, ?, ?, ?, '', '', '', NOW)"), Args: []any{event, tenant, TypeTest, data, es.cfg.Encrypter != nil}})
		var n int64
		if err == nil {
			n, err = r.Exec(ctx, es.text(`insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, NOW, 0, 'test', v.created_at from once_webhook_endpoint e join once_webhook_event v on v.tenant = e.tenant
 where e.uid = ? and e.tenant = ? and e.disabled_at is null and v.uid = ?`, id, tenant, event))
		}
		if err == nil && n == 0 {
			err = es.why(ctx, r, tenant, id)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return event, nil
}

// TypeTest is the type of the events of [Endpoints.Test].
const TypeTest = ofPackage + "test"
