package webhook

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// Period says which events are sent again, and how fast. A Period begins with the first event that is not
// older than Since, and ends with the last event that is older than Until. The events have the order in which
// they were sent. If the clock of the database has jumped during the period, the period also contains some
// events from before Since or after Until, but no event is missing.
type Period struct {
	Since time.Time // the beginning of the period, by the clock of the database
	Until time.Time // the end of the period, by the clock of the database; zero means that the period has no end

	// Rate is how many deliveries become due in a second. Default: all deliveries become due at once. The
	// endpoint's own rate and concurrency also apply to the requests.
	Rate float64
}

const batch = 100 // the maximum number of rows of one transaction

// Recover makes the stopped deliveries of a period (deliveries whose attempts have all failed) due again, and
// returns the number of these deliveries. Each recovered delivery begins its schedule again. Recover uses small
// transactions. If Recover returns an error, only a part of the deliveries may be due: call Recover again to make
// the remaining deliveries due. If the Endpoints were made with [Hooks.By], each transaction also writes an entry
// to the audit (the table once_audit). Recover returns [ErrNotFound], [ErrDisabled], or an error of the database.
func (es *Endpoints) Recover(ctx context.Context, tenant, id string, p Period) (recovered int64, err error) {
	defer es.note()
	endpoint, after, last, err := es.begin(ctx, tenant, id, &p)
	for err == nil {
		var events []any
		err = es.db.Pool().Query(ctx, es.text(fmt.Sprintf("select event from once_webhook_delivery where endpoint = ? and due_at is null and event > ? and event <= ? order by event limit %d", batch),
			endpoint.id, after, last), func(row sqlplane.Row) error {
			err := row.Scan(&after)
			events = append(events, after)
			return err
		})
		if err != nil || len(events) == 0 {
			break
		}
		var n int64
		err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) (err error) {
			due, args := p.due("event", events, recovered)
			n, err = r.Exec(ctx, es.text("update once_webhook_delivery set due_at = "+due+", attempts = 0, cause = 'recover' where endpoint = ? and due_at is null and event in "+fullBatch,
				append(append(args, endpoint.id), full(events)...)...))
			if err == nil && n > 0 {
				err = es.audit(ctx, r, "recover", tenant, fmt.Sprintf("%s: %d deliveries", id, n))
			}
			return err
		})
		if err == nil {
			recovered += n
		}
	}
	return recovered, err
}

// Replay sends each event of a period for which the endpoint has no delivery, because the endpoint was disabled
// or did not want the type of the event. Replay sends only events whose types the endpoint wants now, and returns
// the number of events that it has sent. Like [Endpoints.Recover], Replay uses several small transactions, and
// returns [ErrNotFound], [ErrDisabled], or an error of the database.
func (es *Endpoints) Replay(ctx context.Context, tenant, id string, p Period) (replayed int64, err error) {
	defer es.note()
	endpoint, after, last, err := es.begin(ctx, tenant, id, &p)
	for err == nil {
		var ids []any
		read := 0
		err = es.db.Pool().Query(ctx, es.text(fmt.Sprintf("select id, type from once_webhook_event where tenant = ? and id > ? and id <= ? order by id limit %d", batch), tenant, after, last), func(row sqlplane.Row) error {
			var kind string
			err := row.Scan(&after, &kind)
			if read++; err == nil && wants(endpoint.types, kind) && !strings.HasPrefix(kind, ofPackage) {
				ids = append(ids, after)
			}
			return err
		})
		var n int64
		if err == nil && len(ids) > 0 {
			n, err = es.replay(ctx, tenant, id, ids, p, replayed)
		}
		if err == nil { // after an error the transaction was rolled back
			replayed += n
		}
		if read < batch {
			break
		}
	}
	return replayed, err
}

// The maximum numbers of rows that Preview reads. Preview reads the latest rows.
const (
	mostPreviewedStopped = 10_000
	mostPreviewedEvents  = 2000
)

// Preview returns how many deliveries [Endpoints.Recover] would make due now. If missed is true, Preview
// returns how many events [Endpoints.Replay] would send. Preview reads only the last 10,000 stopped deliveries
// of the endpoint or, if missed is true, the last 2,000 events of the tenant. The result more reports whether
// older deliveries or events may exist. Preview returns the same errors as Recover.
func (es *Endpoints) Preview(ctx context.Context, tenant, id string, p Period, missed bool) (n int64, more bool, err error) {
	e, err := es.checkPeriod(ctx, tenant, id, &p)
	if err != nil {
		return 0, false, err
	}
	if missed {
		return es.previewMissed(ctx, &e, p)
	}
	// This is the order of an index. With another order, PostgreSQL would sort all stopped deliveries.
	query := "select created_at from once_webhook_delivery where endpoint = ? and due_at is null order by due_at desc, event desc limit ?"
	read := 0
	err = es.db.Pool().Query(ctx, es.text(query, e.id, int64(mostPreviewedStopped)), func(row sqlplane.Row) error {
		var at time.Time
		err := row.Scan((*dialect.Time)(&at))
		if read++; p.has(at) {
			n++
		}
		return err
	})
	return n, read == mostPreviewedStopped, err
}

// previewMissed counts the events of a period that the endpoint wants and for which no attempt was made.
func (es *Endpoints) previewMissed(ctx context.Context, e *endpointRow, p Period) (n int64, more bool, err error) {
	query := `select v.type, v.created_at, (select count(*) from once_webhook_delivery d where d.endpoint = ? and d.event = v.id), (select min(a.id) from once_webhook_attempt a where a.endpoint = ? and a.event = v.id)
 from (select id, type, created_at from once_webhook_event where tenant = ? order by id desc limit ?) v`
	read := 0
	var oldest time.Time
	err = es.db.Pool().Query(ctx, es.text(query, e.id, e.id, e.Tenant, int64(mostPreviewedEvents)), func(row sqlplane.Row) error {
		var kind string
		var at time.Time
		var waits int64
		var tried *int64
		err := row.Scan(&kind, (*dialect.Time)(&at), &waits, &tried)
		if read++; oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		if waits == 0 && tried == nil && p.has(at) && wants(e.types, kind) && !strings.HasPrefix(kind, ofPackage) {
			n++
		}
		return err
	})
	// If the oldest event that was read is before the period, the whole period was read.
	return n, read == mostPreviewedEvents && !oldest.Before(p.Since), err
}

// has reports whether an event of the time at belongs to the period.
func (p *Period) has(at time.Time) bool {
	return !at.Before(p.Since) && (p.Until.IsZero() || at.Before(p.Until))
}

// replayedInVain removes deliveries that the insert of Replay has stored although the endpoint already had an
// attempt. This can happen if the insert has waited for a relay that was writing an outcome: the snapshot of
// the insert then lacks the new attempt.
const replayedInVain = `delete from once_webhook_delivery where cause = 'replay' and attempts = 0 and endpoint in (select id from once_webhook_endpoint where uid = ? and tenant = ?)
 and exists (select 1 from once_webhook_attempt a where a.endpoint = once_webhook_delivery.endpoint and a.event = once_webhook_delivery.event) and event in `

// replay stores deliveries of the events for which the endpoint has no attempt.
func (es *Endpoints) replay(ctx context.Context, tenant, id string, events []any, p Period, others int64) (n int64, err error) {
	due, times := p.due("v.id", events, others)
	args := append([]any{id, tenant}, full(events)...)
	err = es.within(ctx, func(ctx context.Context, r sqlplane.Runner) (err error) {
		n, err = r.Exec(ctx, es.text(`insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e.id, v.id, e.part, `+due+`, 0, 'replay', v.created_at from once_webhook_endpoint e join once_webhook_event v on v.tenant = e.tenant
 where e.uid = ? and e.tenant = ? and e.disabled_at is null and v.id in `+fullBatch+`
 and not exists (select 1 from once_webhook_attempt a where a.endpoint = e.id and a.event = v.id) KEEP(endpoint)`, append(times, args...)...))
		if err == nil && n > 0 {
			var got int64
			// The insert may have waited for a relay that has deleted a row and stored an attempt. The insert
			// does not see this attempt.
			got, err = r.Exec(ctx, es.text(replayedInVain+fullBatch, args...))
			n -= got
		}
		if err == nil && n > 0 {
			err = es.audit(ctx, r, "replay", tenant, fmt.Sprintf("%s: %d events", id, n))
		}
		return err
	})
	return n, err
}

// fullBatch is a list of placeholders for a whole batch. With one text for all batches, the database prepares
// one statement.
var fullBatch = "(?" + strings.Repeat(", ?", batch-1) + ")"

// full repeats the last event until the list has the length of a batch.
func full(events []any) []any {
	events = slices.Clone(events)
	for len(events) < batch {
		events = append(events, events[len(events)-1])
	}
	return events
}

// begin returns the endpoint, and the range of numbers of the period's events: greater than after, and at most
// last. begin reads all earlier events of the tenant, because after a jump of the clock a later number may have
// an earlier time.
func (es *Endpoints) begin(ctx context.Context, tenant, id string, p *Period) (e endpointRow, after, last int64, err error) {
	if e, err = es.checkPeriod(ctx, tenant, id, p); err != nil {
		return e, 0, 0, err
	}
	const events = "select id from once_webhook_event where tenant = ? and created_at "
	// Without an event in the period, the range of numbers is empty.
	first, last := int64(math.MaxInt64), int64(0)
	err = es.db.Pool().Query(ctx, es.text(events+">= ? order by id limit 1", tenant, es.at(p.Since)), func(row sqlplane.Row) error { return row.Scan(&first) })
	// A period without an end includes events that commit later.
	if p.Until.IsZero() {
		return e, first - 1, math.MaxInt64, err
	}
	if err == nil {
		err = es.db.Pool().Query(ctx, es.text(events+"< ? order by id desc limit 1", tenant, es.at(p.Until)), func(row sqlplane.Row) error { return row.Scan(&last) })
	}
	return e, first - 1, last, err
}

// checkPeriod checks p, and returns the endpoint, or [ErrDisabled] if the endpoint is disabled.
func (es *Endpoints) checkPeriod(ctx context.Context, tenant, id string, p *Period) (e endpointRow, err error) {
	if err := checkRate(p.Rate); err != nil {
		return e, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if e, err = es.find(ctx, es.db.Pool(), tenant, id); err == nil && !e.DisabledAt.IsZero() {
		err = ErrDisabled
	}
	return e, err
}

// due returns the SQL expression of the time at which each delivery becomes due. The rate spreads these times.
func (p *Period) due(event string, events []any, others int64) (text string, args []any) {
	if p.Rate == 0 {
		return "NOW", nil
	}
	for i, e := range full(events) {
		args = append(args, e, -int64(float64(others+int64(i))/p.Rate*float64(time.Second/time.Microsecond)))
	}
	return "case " + event + strings.Repeat(" when ? then AGO(?)", batch) + " end", args
}

func (es *Endpoints) at(t time.Time) any { return dialect.StoredTime(es.db.Dialect(), t) }
