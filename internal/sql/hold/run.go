package hold

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Run claims and renews parts until ctx ends. Then it waits until no part is in use, for TTL at most, and releases all parts.
// Meanwhile no unit of work can begin. changed, if it is not nil, is called after the parts have changed. It must be quick.
//
// Run works on a connection of its own if the store can ([sqlplane.Reserver]). It returns an error if
// it cannot work at all, because the tables do not exist for example.
func (h *Holder) Run(ctx context.Context, changed func()) error {
	db, release, err := reserve(h.db)
	if err != nil {
		return err
	}
	defer release()
	h.telling.Lock()
	h.changed = changed
	h.telling.Unlock()
	r := &runner{
		Holder: h,
		table:  table{db: db, name: h.cfg.Table, work: h.cfg.Work, node: h.node, ttl: h.cfg.TTL, patience: max(h.cfg.TTL/3, time.Second)},
		every:  min(h.cfg.TTL/3, time.Second),
	}
	for ctx.Err() == nil {
		err := r.tick(ctx)
		if errors.Is(err, store.ErrNotMigrated) {
			return err
		}
		r.failed(err)
		r.wait(ctx)
	}
	r.drain(context.WithoutCancel(ctx))
	return nil
}

// reserve returns db with a connection of its own, so that a pool that is exhausted costs no part.
func reserve(db sqlplane.Database) (own sqlplane.Database, release func(), err error) {
	if r, ok := store.As[sqlplane.Reserver](db); ok {
		return r.Reserve()
	}
	return db, func() {}, nil
}

// runner is a Holder that runs.
type runner struct {
	*Holder

	table    table
	every    time.Duration // between two polls
	renewed  time.Time     // when the last renewal that has succeeded was sent
	due      bool          // the next one is due now
	clock    clockWatch
	settled  time.Time   // until then, no part is taken from an expired node: the clock of the database was set
	lapse    *time.Timer // fires when the parts are lost
	draining bool
}

// tick is two round trips: it renews, and reads the parts of all nodes. Changing the parts of this node takes two more,
// and the first nodes of a work, and the first one after the clock was set, need more.
func (r *runner) tick(ctx context.Context) error {
	// The time before it is sent: the database counts the TTL from a later moment, so that this process stops first.
	if sent := time.Now(); r.due || sent.Sub(r.renewed) >= r.cfg.TTL/3 {
		if err := r.table.renew(ctx, r.draining); err != nil {
			return err
		}
		r.renewed, r.due = sent, false
	}
	v, err := r.look(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(v.live, r.node) && !r.draining { // the clock of the database was set
		r.due = true
		r.again()
	}
	changes, err := r.balance(ctx, v)
	if err == nil && changes {
		_, err = r.look(ctx)
	}
	return cmp.Or(err, r.tidy(ctx, v))
}

// look reads which parts this node holds.
func (r *runner) look(ctx context.Context) (view, error) {
	sent := time.Now()
	v, err := r.table.look(ctx)
	if err != nil {
		return v, err
	}
	if r.clock.jumps(v.now, sent, time.Now(), r.cfg.TTL/10) {
		r.settled = time.Now().Add(max(r.cfg.TTL, v.longest)) // nodes that live renew until then
	}
	r.mu.Lock()
	before := r.held
	r.held = nil
	for _, p := range v.parts {
		if p.node == r.node && p.Number < r.cfg.Parts {
			i := slices.IndexFunc(before, func(h heldPart) bool { return h.Part == p.Part })
			r.held = append(r.held, heldPart{Part: p.Part, leaving: r.draining || i >= 0 && before[i].leaving})
		}
	}
	r.mu.Unlock()
	r.extend()
	r.tell()
	return v, nil
}

// extend lets this process use its parts for as long as no other can have taken them over: counted from
// before the last renewal was sent, less a margin for clocks that do not run alike.
func (r *runner) extend() {
	r.mu.Lock()
	r.until = r.renewed.Add(r.cfg.TTL - r.cfg.TTL/10)
	left := time.Until(r.until)
	r.mu.Unlock()
	if r.lapse == nil {
		r.lapse = time.AfterFunc(left, r.tell)
	}
	r.lapse.Reset(left)
}

// balance releases parts beyond the share of this node, or takes some that it lacks. changes says that it has tried.
func (r *runner) balance(ctx context.Context, v view) (changes bool, err error) {
	counts := map[string]int{r.node: 0}
	for _, node := range v.live {
		counts[node] = 0
	}
	var free []Part
	for _, p := range v.parts {
		_, shares := counts[p.node]
		switch {
		case p.Number >= r.cfg.Parts, slices.Contains(v.leaving, p.node):
		case shares:
			counts[p.node]++
		case p.node == "" || time.Now().After(r.settled):
			// Free, or of a node that has expired; but after the clock was set, a node may only seem to have expired.
			free = append(free, p.Part)
		}
	}
	surplus := counts[r.node] - share(r.cfg.Parts, counts, r.node)
	idle := r.chooseLeaving(surplus)
	r.tell()
	switch {
	case len(idle) > 0:
		return true, r.table.letGo(ctx, idle)
	case surplus < 0 && len(free) > 0 && !r.draining:
		rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] }) // nodes that take at the same moment choose different parts
		free = free[:min(-surplus, len(free))]
		return true, r.table.take(ctx, free)
	}
	return false, nil
}

// chooseLeaving selects parts to release, so that this node reaches its share within a few rounds, and returns the parts that can be released now.
func (r *runner) chooseLeaving(surplus int) (idle []Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	leaving := min(surplus, max(1, r.cfg.Parts/8))
	if r.draining {
		leaving = len(r.held)
	}
	// First the parts that are leaving already, then the parts that are not in use.
	order := slices.Clone(r.held)
	slices.SortStableFunc(order, func(a, b heldPart) int {
		if a.leaving != b.leaving {
			if a.leaving {
				return -1
			}
			return 1
		}
		return cmp.Compare(r.uses[a.Number], r.uses[b.Number])
	})
	for i, p := range order {
		at := slices.IndexFunc(r.held, func(h heldPart) bool { return h.Number == p.Number })
		r.held[at].leaving = i < leaving
	}
	return r.idle()
}

// tidy does the work that is seldom needed: it creates missing parts, and repairs or deletes rows of nodes.
func (r *runner) tidy(ctx context.Context, v view) error {
	var missing []int
	for n := range r.cfg.Parts {
		if !slices.ContainsFunc(v.parts, func(p partRow) bool { return p.Number == n }) {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		if err := r.table.create(ctx, missing); err != nil {
			return err
		}
		r.again()
	}
	for _, n := range v.ahead {
		if err := r.table.bringBack(ctx, n); err != nil {
			return err
		}
	}
	if len(v.dead) > 0 && time.Now().After(r.settled) {
		return r.table.forget(ctx, v.dead)
	}
	return nil
}

// again has the next tick come at once.
func (r *runner) again() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// wait waits for the next tick.
func (r *runner) wait(ctx context.Context) {
	timer := time.NewTimer(r.every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-r.wake:
	}
}

// drain lets all parts go, each as soon as it is not in use.
func (r *runner) drain(ctx context.Context) {
	r.mu.Lock()
	r.draining, r.due = true, true // the next renewal says so
	for i := range r.held {
		r.held[i].leaving = true
	}
	r.mu.Unlock()
	r.tell()
	for end := time.Now().Add(r.cfg.TTL); r.inUse() && time.Now().Before(end); r.wait(ctx) {
		r.failed(r.tick(ctx))
	}
	// Last: without its node, all parts are free for others.
	r.failed(r.table.leave(ctx))
	r.mu.Lock()
	r.held = nil
	r.mu.Unlock()
	if r.lapse != nil {
		r.lapse.Stop()
	}
}

func (r *runner) failed(err error) {
	if err != nil && r.cfg.Failed != nil {
		r.cfg.Failed(err)
	}
}
