package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Types of events that the relay sends to the owner of an endpoint, to those endpoints of the tenant that want them.
const (
	EventEndpointFailing  = "webhook.endpoint.failing"  // half of the time until it is disabled is over, or three quarters
	EventEndpointDisabled = "webhook.endpoint.disabled" // it is disabled; what waits for it stays
)

// noticeOf returns of what the owner of an endpoint is to hear after a failure: how much of the time until it is disabled is over, in percent; 0: of nothing.
func (r *Relay) noticeOf(d *delivery, now time.Time) int {
	if d.answer.Status == http.StatusGone {
		return 100
	}
	if d.state == nil || r.cfg.DisableAfter < 0 {
		return 0
	}
	over := int(now.Sub(d.state.since) * 100 / r.cfg.DisableAfter)
	for _, percent := range [...]int{100, 75, 50} {
		if over >= percent && d.state.told < percent {
			return percent
		}
	}
	return 0
}

// writeStates writes down how endpoints are doing now, and tells owners.
func (r *Relay) writeStates(ctx context.Context, list []*delivery) {
	last := map[*target]*delivery{}
	for _, d := range list {
		if before := last[d.target]; d.state != nil && (before == nil || d.notice >= before.notice) {
			last[d.target] = d
		}
	}
	if len(last) == 0 {
		return
	}
	r.stating.Lock() // what is written last is what was last
	defer r.stating.Unlock()
	for _, d := range last {
		var by Disabled
		changed := false
		err := r.write(ctx, func(ctx context.Context) error {
			if err := r.exec(ctx, r.state(d)); err != nil || d.notice == 0 {
				return err
			}
			return r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) (err error) {
				by, changed, err = r.notice(ctx, tx, d)
				return err
			})
		})
		switch {
		case err != nil:
			r.tell(ctx, RelayEvent{Type: EventDatabase, Err: err})
			return
		case by != "":
			r.board.disable(d.target)
		case d.notice > 0:
			r.board.told(d.target, d.notice)
		}
		if by != "" && changed {
			r.tell(ctx, RelayEvent{Type: EventDisabled, Tenant: d.tenant, Endpoint: d.target.uid, Err: d.answer.err, Status: d.answer.Status})
		}
	}
}

// state is the statement that writes down how an endpoint is doing.
func (r *Relay) state(d *delivery) store.Statement {
	h := r.board.healthOf(d.target)
	if h.failures == 0 {
		still, args := hold.StillHeld(holdTable, holdWork, "part", []hold.Part{d.part})
		return r.text("delete from once_webhook_state where endpoint = ? and "+still, append([]any{d.target.id}, args...)...)
	}
	var until any
	if !h.until.IsZero() {
		until = time.Since(h.until).Microseconds()
	}
	return r.text(`insert into once_webhook_state (endpoint, part, failures, failing_since, circuit_until, told)
 select ?, part, ?, AGO(?), AGO(?), 0 from once_webhook_hold where work = ? and part = ? and fence = ? FOR SHARE
 UPSERT(endpoint) failures = NEW(failures), failing_since = NEW(failing_since), circuit_until = NEW(circuit_until)`,
		d.target.id, h.failures, time.Since(h.since).Microseconds(), until, holdWork, d.part.Number, d.part.Fence)
}

// notice tells the owner of an endpoint how long it fails, once, and disables the endpoint when its time is over.
func (r *Relay) notice(ctx context.Context, tx sqlplane.Runner, d *delivery) (by Disabled, changed bool, err error) {
	kind := EventEndpointFailing
	still, args := hold.StillHeld(holdTable, holdWork, "part", []hold.Part{d.part})
	statement := r.text("update once_webhook_state set told = ? where endpoint = ? and told < ? and "+still, append([]any{d.notice, d.target.id, d.notice}, args...)...)
	if d.notice == 100 {
		kind, by = EventEndpointDisabled, DisabledByFailing
		if d.answer.Status == http.StatusGone {
			by = DisabledByGone
		}
		statement = r.text("update once_webhook_endpoint set disabled_at = NOW, disabled_by = ?, version = version + 1 where id = ? and version = ? and disabled_at is null and "+still,
			append([]any{string(by), d.target.id, d.version}, args...)...) // a person may have changed or enabled it since
	}
	rows, err := tx.Exec(ctx, statement)
	if err != nil || rows == 0 {
		return by, false, err
	}
	if by != "" { // a person who enables it begins anew
		if _, err := tx.Exec(ctx, r.text("delete from once_webhook_state where endpoint = ?", d.target.id)); err != nil {
			return by, false, err
		}
	}
	data, err := json.Marshal(map[string]any{"type": kind, "timestamp": time.Now().UTC(), "data": map[string]any{
		"endpoint": d.target.uid, "percent": d.notice, "disabled_by": by, "failing_since": d.state.since.UTC(),
	}})
	if err != nil {
		return by, false, err
	}
	return by, true, r.hooks.sendIn(ctx, tx, r.db.Dialect(), Event{Tenant: d.tenant, Type: kind, Data: data})
}
