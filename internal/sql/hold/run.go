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

// Run claims and renews parts until ctx ends. Then it waits, at most for TTL, until no part is in use, and releases all parts.
// During this wait no unit of work can begin. If changed is not nil, Run calls it after the parts have changed. It must
// return quickly.
//
// Run uses a separate connection if the store supports this ([sqlplane.Reserver]). It returns an error if it cannot work at all,
// for example because the tables do not exist.
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
		// Another attempt cannot help before the tables exist.
		if errors.Is(err, store.ErrNotMigrated) {
			return err
		}
		r.failed(err)
		r.wait(ctx)
	}
	// Without cancel, because the parts must be released after ctx has ended.
	r.drain(context.WithoutCancel(ctx))
	return nil
}

// reserve returns db with a separate connection, so that this process keeps its parts even if the pool is exhausted.
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
	every    time.Duration // the time between two looks
	renewed  time.Time     // when the last successful renewal was sent
	due      bool          // the next renewal is due now
	clock    clockWatch
	settled  time.Time   // before this time, no part is taken from an expired node, because the clock of the database was set
	lapse    *time.Timer // fires when this process loses its parts
	draining bool
}

// tick needs two round trips: it renews, and it reads the parts of all nodes. A change of this node's parts needs two more. The
// first nodes of a work, and the first look after the clock was set, need further round trips.
func (r *runner) tick(ctx context.Context) error {
	// The time before the renewal is sent counts. The database counts the TTL from a later time, so this process stops first.
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
	if !slices.Contains(v.live, r.node) && !r.draining { // the clock of the database was set, so this node seems to have expired
		r.due = true
		r.again()
	}
	// The view is from before the changes, so the parts are read once more.
	changes, err := r.balance(ctx, v)
	if err == nil && changes {
		_, err = r.look(ctx)
	}
	return cmp.Or(err, r.tidy(ctx, v))
}

// look reads the parts that this node holds.
func (r *runner) look(ctx context.Context) (view, error) {
	sent := time.Now()
	v, err := r.table.look(ctx)
	if err != nil {
		return v, err
	}
	if r.clock.jumps(v.now, sent, time.Now(), r.cfg.TTL/10) {
		r.settled = time.Now().Add(max(r.cfg.TTL, v.longest)) // until then, every node that lives renews
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

// extend lets this process use its parts as long as no other process can have taken them. The time begins before the last
// renewal was sent. A margin is subtracted, because clocks run at different speeds.
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

// balance releases parts above the share of this node, or takes parts that are missing to it. changes reports whether it has
// tried to change parts.
func (r *runner) balance(ctx context.Context, v view) (changes bool, err error) {
	counts := map[string]int{r.node: 0}
	for _, node := range v.live {
		counts[node] = 0
	}
	var free []Part
	for _, p := range v.parts {
		_, shares := counts[p.node]
		switch {
		// A node that is leaving releases its parts itself.
		case p.Number >= r.cfg.Parts, slices.Contains(v.leaving, p.node):
		case shares:
			counts[p.node]++
		case p.node == "" || time.Now().After(r.settled):
			// The part is free, or its node has expired. After the clock was set, a node may only seem to have expired.
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
		rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] }) // nodes that take parts at the same time choose different parts
		free = free[:min(-surplus, len(free))]
		return true, r.table.take(ctx, free)
	}
	return false, nil
}

// chooseLeaving marks parts to release, so that this node reaches its share within a few rounds. It returns the parts that can be
// released now.
func (r *runner) chooseLeaving(surplus int) (idle []Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A part of the surplus at a time, so that the parts do not all move at once.
	leaving := min(surplus, max(1, r.cfg.Parts/8))
	if r.draining {
		leaving = len(r.held)
	}
	// The parts that are leaving already come first, then the parts that are not in use.
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

// tidy does rare work: it creates missing parts, and repairs or deletes rows of nodes.
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
	// After the clock was set, a living node may seem to be dead.
	if len(v.dead) > 0 && time.Now().After(r.settled) {
		return r.table.forget(ctx, v.dead)
	}
	return nil
}

// again makes the next tick begin at once.
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

// drain releases all parts, each as soon as it is not in use.
func (r *runner) drain(ctx context.Context) {
	r.mu.Lock()
	r.draining, r.due = true, true // the next renewal tells the other nodes that this node is leaving
	for i := range r.held {
		r.held[i].leaving = true
	}
	r.mu.Unlock()
	r.tell()
	for end := time.Now().Add(r.cfg.TTL); r.inUse() && time.Now().Before(end); r.wait(ctx) {
		r.failed(r.tick(ctx))
	}
	// This comes last: without the row of its node, all its parts are free for other nodes.
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
