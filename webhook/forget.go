package webhook

import (
	"context"
	"fmt"

	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store/sqlplane"
)

// Forgotten says how many rows [Hooks.Forget] has erased.
type Forgotten struct {
	Endpoints, Events, Deliveries, Attempts int64
}

// Forget erases all data of a tenant: endpoints, events, deliveries and attempts. Forget deletes waiting
// deliveries, but does not cancel requests in flight. Stop sending events for the tenant before you call Forget,
// because Forget does not erase an event that commits later. Forget first erases the endpoints, and then erases
// the remaining rows in small transactions. If Forget returns an error, a part of the data may remain: call
// Forget again to erase the remaining data.
func (h *Hooks[TX]) Forget(ctx context.Context, tenant string) (f Forgotten, err error) {
	if err := checkTenant(tenant); err != nil {
		return f, fmt.Errorf("webhook: %w", err)
	}
	es, w := h.Endpoints(), sweeper{h.db}
	err = letter.Within(ctx, h.db, func(ctx context.Context, r sqlplane.Runner) (err error) {
		f.Endpoints, err = r.Exec(ctx, h.text("update once_webhook_endpoint set "+erased+" where tenant = ? and deleted_at is null", []byte{}, []byte{}, tenant))
		if err == nil {
			// This row contains the name of the tenant, so it is erased as well.
			_, err = r.Exec(ctx, h.text("delete from once_webhook_tenant where tenant = ?", tenant))
		}
		if err != nil {
			return err
		}
		return es.audit(ctx, r, "forget", tenant, fmt.Sprintf("%d endpoints, and what was sent to them", f.Endpoints))
	})
	var endpoints []int64
	if err == nil {
		err = h.db.Pool().Query(ctx, h.text("select id from once_webhook_endpoint where tenant = ? order by id", tenant), func(row sqlplane.Row) error {
			var id int64
			err := row.Scan(&id)
			endpoints = append(endpoints, id)
			return err
		})
	}
	// Each endpoint has its own small transactions, so that no lock is held for long.
	for _, id := range endpoints {
		if err == nil {
			var deliveries, attempts int64
			deliveries, attempts, err = w.rows(ctx, id)
			f.Deliveries, f.Attempts = f.Deliveries+deliveries, f.Attempts+attempts
		}
	}
	if err == nil {
		f.Events, err = w.remove(ctx, "once_webhook_event", "id", "tenant = ?", tenant)
	}
	if err == nil {
		err = h.forgetRest(ctx, tenant, &f)
	}
	return f, err
}

// forgetRest deletes the rows that the reads of Forget have not found, because a standby with old data may have
// answered these reads. A statement that writes runs on the primary.
func (h *Hooks[TX]) forgetRest(ctx context.Context, tenant string, f *Forgotten) error {
	const endpoints = "endpoint in (select id from once_webhook_endpoint where tenant = ?)"
	var rest [3]int64
	err := letter.Within(ctx, h.db, func(ctx context.Context, r sqlplane.Runner) error {
		for i, from := range [...]string{"once_webhook_delivery where " + endpoints, "once_webhook_attempt where " + endpoints, "once_webhook_event where tenant = ?"} {
			var err error
			if rest[i], err = r.Exec(ctx, h.text("delete from "+from, tenant)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.Deliveries, f.Attempts, f.Events = f.Deliveries+rest[0], f.Attempts+rest[1], f.Events+rest[2]
	}
	return err
}
