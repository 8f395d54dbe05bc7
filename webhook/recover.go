package webhook

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// Period is which events are sent again, and how fast.
type Period struct {
	Since time.Time // by the clock of the database
	Until time.Time // zero: now

	// Rate is how many deliveries become due in a second. Default: all at once; what is sent at a time is bounded by the endpoint's own rate and concurrency.
	Rate float64
}

const (
	batch    = 100             // rows of one transaction
	slowness = 5 * time.Minute // of a transaction that draws its number before others and is later than they are
)

// Recover sends what was sent in a period and ran out of attempts, from the start of its schedule, and returns how many deliveries become due. It works in small
// transactions: after an error some have been made, and to call it again makes the others. Each of them is audited. The error is [ErrNotFound], [ErrDisabled],
// or one of the database.
func (es *Endpoints) Recover(ctx context.Context, tenant, id string, p Period) (recovered int64, err error) {
	defer es.note()
	endpoint, after, err := es.begin(ctx, tenant, id, &p)
	for err == nil {
		var last, n int64
		const found = "endpoint = ? and due_at is null and event > ? and created_at >= ? and created_at < ?"
		args := []any{endpoint.id, after, es.at(p.Since), es.at(p.Until)}
		last, err = es.number(ctx, es.db.Pool(), fmt.Sprintf("select coalesce(max(event), 0) from (select event from once_webhook_delivery where %s order by event limit %d) x", found, batch), args...)
		if err != nil || last == 0 {
			break
		}
		err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) (err error) {
			n, err = r.Exec(ctx, es.text("update once_webhook_delivery set due_at = AGO(?), attempts = 0, cause = 'recover' where "+found+" and event <= ?",
				append(append([]any{p.offset(recovered)}, args...), last)...))
			if err == nil && n > 0 {
				err = es.audit(ctx, r, "recover", tenant, fmt.Sprintf("%s: %d deliveries", id, n))
			}
			return err
		})
		if err == nil {
			recovered, after = recovered+n, last
		}
	}
	return recovered, err
}

// Replay sends the events of a period that an endpoint wants now and of which it has had no attempt, because it was disabled or did not want them, and returns
// how many. It works as [Endpoints.Recover] does.
func (es *Endpoints) Replay(ctx context.Context, tenant, id string, p Period) (replayed int64, err error) {
	defer es.note()
	endpoint, after, err := es.begin(ctx, tenant, id, &p)
	for err == nil {
		var ids []any
		read := 0
		err = es.db.Pool().Query(ctx, es.text(fmt.Sprintf("select id, type, created_at from once_webhook_event where tenant = ? and id > ? order by id limit %d", batch), tenant, after), func(row sqlplane.Row) error {
			var kind string
			var at time.Time
			err := row.Scan(&after, &kind, (*dialect.Time)(&at))
			if read++; err == nil && !at.Before(p.Since) && at.Before(p.Until) && wants(endpoint.types, kind) && !strings.HasPrefix(kind, ofPackage) {
				ids = append(ids, after)
			}
			return err
		})
		var n int64
		if err == nil && len(ids) > 0 {
			n, err = es.replay(ctx, tenant, id, ids, p.offset(replayed))
		}
		if replayed += n; read < batch {
			break
		}
	}
	return replayed, err
}

// replayedInVain removes deliveries that an insert has replayed while the relay wrote down their outcome: the insert has waited for that, and has not seen the attempt.
const replayedInVain = `delete from once_webhook_delivery where cause = 'replay' and attempts = 0 and endpoint in (select id from once_webhook_endpoint where uid = ? and tenant = ?)
 and exists (select 1 from once_webhook_attempt a where a.endpoint = once_webhook_delivery.endpoint and a.event = once_webhook_delivery.event) and event in `

// replay stores deliveries of events of which the endpoint has had no attempt.
func (es *Endpoints) replay(ctx context.Context, tenant, id string, events []any, offset int64) (n int64, err error) {
	args := append([]any{offset, id, tenant}, events...)
	for len(args) < 3+batch { // one text for all
		args = append(args, events[0])
	}
	err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) (err error) {
		n, err = r.Exec(ctx, es.text(`insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, AGO(?), 0, 'replay', v.created_at from once_webhook_endpoint e join once_webhook_event v on v.tenant = e.tenant
 where e.uid = ? and e.tenant = ? and e.disabled_at is null and v.id in (?`+strings.Repeat(", ?", batch-1)+`)
 and not exists (select 1 from once_webhook_attempt a where a.endpoint = e.id and a.event = v.id) KEEP(endpoint)`, args...))
		if err == nil && n > 0 {
			var got int64
			got, err = r.Exec(ctx, es.text(replayedInVain+`(?`+strings.Repeat(", ?", batch-1)+`)`, args[1:]...))
			n -= got
		}
		if err == nil && n > 0 {
			err = es.audit(ctx, r, "replay", tenant, fmt.Sprintf("%s: %d events", id, n))
		}
		return err
	})
	return n, err
}

// begin returns the endpoint, and a number below those of the events of the period.
func (es *Endpoints) begin(ctx context.Context, tenant, id string, p *Period) (e endpointRow, after int64, err error) {
	if err := checkRate(p.Rate); err != nil {
		return e, 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if p.Until.IsZero() {
		p.Until = time.Now().Add(24 * time.Hour) // of a clock that may be ahead of this one
	}
	if e, err = es.find(ctx, es.db.Pool(), tenant, id); err != nil {
		return e, 0, err
	}
	if !e.DisabledAt.IsZero() {
		return e, 0, ErrDisabled
	}
	after, err = firstSince(ctx, es.db, "created_at from once_webhook_event where tenant = ? and ", p.Since.Add(-slowness), tenant)
	return e, after - 1, err
}

// offset is how long before now a delivery becomes due, in microseconds: less than 0 for those after n others.
func (p *Period) offset(n int64) int64 {
	if p.Rate == 0 {
		return 0
	}
	return -int64(float64(n) / p.Rate * float64(time.Second/time.Microsecond))
}

func (es *Endpoints) at(t time.Time) any { return dialect.StoredTime(es.db.Dialect(), t) }
