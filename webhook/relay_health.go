package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// When an endpoint fails for a long time, the relay (the sender of webhooks) sends an event of the type
// [EventEndpointFailing] or [EventEndpointDisabled] to each endpoint of the same tenant that wants events of this
// type.
const (
	EventEndpointFailing  = "webhook.endpoint.failing"  // the endpoint has failed for half, or for three quarters, of the time RelayConfig.DisableAfter, after which the endpoint is disabled
	EventEndpointDisabled = "webhook.endpoint.disabled" // the endpoint is disabled; its waiting deliveries are kept
)

// noticeOf returns the warning that the owner of an endpoint gets after a failure, as a percentage: how much of
// the time until the endpoint is disabled has passed. The result 0 means no warning.
func (r *Relay) noticeOf(d *delivery, now time.Time) int {
	if d.answer.Status == http.StatusGone {
		// The status 410 says that the endpoint wants no more events, so the endpoint is disabled immediately.
		return 100
	}
	// Without a state, the attempt has not changed the health of the endpoint.
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

// stater writes the states of endpoints, one by one, and warns owners. Outcomes of deliveries do not wait for a
// state. If another transaction has locked the row of an endpoint, or a warning cannot be stored, only the
// state of this endpoint waits. A statement without an answer from the database delays all other states, for at
// most 30 s.
type stater struct {
	relay *Relay
	mu    sync.Mutex
	last  map[*target]*delivery // the latest delivery of each target whose state must be written
	ended bool                  // the relay adds no more deliveries
	woken chan struct{}
}

func newStater(r *Relay) *stater {
	return &stater{relay: r, last: map[*target]*delivery{}, woken: make(chan struct{}, 1)}
}

// add queues the states of the endpoints of deliveries.
func (s *stater) add(list []*delivery) {
	s.mu.Lock()
	for _, d := range list {
		// A warning must not get lost behind a later state without a warning.
		if before := s.last[d.target]; d.state != nil && (before == nil || d.notice >= before.notice) {
			s.last[d.target] = d
		}
	}
	s.mu.Unlock()
	notify(s.woken)
}

// end makes run return when all states are written, or when the TTL has passed.
func (s *stater) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	notify(s.woken)
}

// take returns all states that must be written now.
func (s *stater) take() (last map[*target]*delivery, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, s.last = s.last, map[*target]*delivery{}
	return last, s.ended
}

// run writes states until end is called.
func (s *stater) run(ctx context.Context) {
	r := s.relay
	// The end of Run must not cancel the last states.
	ctx = context.WithoutCancel(ctx)
	var until time.Time // set when end is called
	for failures := 0; ; {
		last, ended := s.take()
		if ended && until.IsZero() {
			until = time.Now().Add(r.cfg.TTL)
		}
		if len(last) == 0 {
			if ended {
				return
			}
			<-s.woken
			continue
		}
		var failed error
		for _, d := range last {
			if err := r.writeState(ctx, d); err != nil {
				failed = err
				// A later delivery may have been added meanwhile: add keeps the right one.
				s.add([]*delivery{d})
			}
		}
		if failures++; failed == nil {
			failures = 0
			continue
		}
		r.databaseFailed(ctx, failed, failures)
		if ended && time.Now().After(until) {
			return
		}
	}
}

// errLocked says that another transaction has locked the row of an endpoint, for example a change of the
// endpoint. On MySQL at REPEATABLE READ, Send locks it as well.
var errLocked = &store.Error{Kind: store.KindRetry, Err: errors.New("another transaction has locked the endpoint")}

// writeState writes the state of an endpoint, and warns its owner.
func (r *Relay) writeState(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	err := r.exec(ctx, r.state(d))
	if err != nil || d.notice == 0 {
		return err
	}
	var by Disabled
	changed := false
	err = r.db.Within(ctx, store.ReadCommitted, func(ctx context.Context, tx sqlplane.Runner) (err error) {
		by, changed, err = r.notice(ctx, tx, d)
		return err
	})
	switch {
	case err != nil:
		return err
	case by != "":
		r.board.disable(d.target)
	default:
		r.board.told(d.target, d.notice)
	}
	// Without a change, a person has changed the endpoint meanwhile, which is no event of this relay.
	if by != "" && changed {
		r.tell(ctx, RelayEvent{Type: EventDisabled, Tenant: d.tenant, Endpoint: d.target.uid, Err: d.answer.err, Status: d.answer.Status})
	}
	return nil
}

// state returns the statement that writes the state of an endpoint.
func (r *Relay) state(d *delivery) store.Statement {
	// The current health counts, because a later delivery may have changed it.
	h := r.board.healthOf(d.target)
	// Most endpoints never fail, so only an endpoint with failures has a row.
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

// lock locks the row of an endpoint, or returns errLocked. A deleted endpoint may have no row.
func (r *Relay) lock(ctx context.Context, tx sqlplane.Runner, endpoint int64) error {
	// A deleted row must not look like a locked one.
	exists, free := false, false
	err := tx.Query(ctx, r.text("select 1 from once_webhook_endpoint where id = ?", endpoint), func(sqlplane.Row) error { exists = true; return nil })
	if err == nil && exists {
		err = tx.Query(ctx, r.text("select 1 from once_webhook_endpoint where id = ? FOR UPDATE SKIP LOCKED", endpoint), func(sqlplane.Row) error { free = true; return nil })
	}
	if err == nil && exists && !free {
		err = errLocked
	}
	return err
}

// hasSucceeded reports whether an attempt has succeeded since the first failure of the state. This happens if a
// relay was killed after it wrote an outcome and before it wrote the state. An endpoint that has answered 410
// counts as failed in any case.
func (r *Relay) hasSucceeded(ctx context.Context, tx sqlplane.Runner, d *delivery) (yes bool, err error) {
	if d.answer.Status == http.StatusGone {
		return false, nil
	}
	since := time.Since(d.state.since).Microseconds()
	err = tx.Query(ctx, r.text("select 1 from once_webhook_attempt where endpoint = ? and status between 200 and 299 and at >= AGO(?) limit 1", d.target.id, since), func(sqlplane.Row) error {
		yes = true
		return nil
	})
	return yes, err
}

// notice warns the owner of an endpoint, once for each percentage, and disables the endpoint when the time has
// passed. If by is set but changed is false, the caller makes the relay read the endpoint again.
func (r *Relay) notice(ctx context.Context, tx sqlplane.Runner, d *delivery) (by Disabled, changed bool, err error) {
	// After a success the warning would be wrong.
	if yes, err := r.hasSucceeded(ctx, tx, d); err != nil || yes {
		return DisabledByFailing, false, err
	}
	kind := EventEndpointFailing
	still, args := hold.StillHeld(holdTable, holdWork, "part", []hold.Part{d.part})
	// The condition on told: two processes must not send the same warning twice.
	statement := r.text("update once_webhook_state set told = ? where endpoint = ? and told < ? and "+still, append([]any{d.notice, d.target.id, d.notice}, args...)...)
	if d.notice == 100 {
		kind, by = EventEndpointDisabled, DisabledByFailing
		if d.answer.Status == http.StatusGone {
			by = DisabledByGone
		}
		if err := r.lock(ctx, tx, d.target.id); err != nil {
			return by, false, err
		}
		statement = r.text("update once_webhook_endpoint set disabled_at = NOW, disabled_by = ?, version = version + 1 where id = ? and version = ? and disabled_at is null and "+still,
			append([]any{string(by), d.target.id, d.version}, args...)...) // the version: a person may have changed or enabled the endpoint meanwhile
	}
	rows, err := tx.Exec(ctx, statement)
	if err != nil || rows == 0 {
		return by, false, err
	}
	if by != "" { // when a person enables the endpoint, it begins without failures
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
