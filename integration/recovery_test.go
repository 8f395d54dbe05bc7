package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// lagging is a primary and a standby that gets nothing from it any more. Clients know both,
// and take the standby while the primary is away, as drivers do by default.
type lagging struct {
	*pair

	back *faultnet.Proxy // to the standby
	dsn  string
}

// newLagging runs known on the primary, and cuts the standby off when that has it all.
func newLagging(t *testing.T, storeName string, known func(l *lagging) error) *lagging {
	t.Helper()
	l := &lagging{pair: newPair(t, storeName)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if l.back, err = faultnet.Listen(l.standby.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.back.Close() })
	l.dsn = l.primary.URLVia(l.front.Addr()+","+l.back.Addr(), "postgres")
	err = errors.Join(known(l), l.standby.Heal(ctx), l.primary.Set(ctx, "synchronous_standby_names", ""), l.standby.Cut(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// away makes new connections to the primary fail.
func (l *lagging) away() { l.front.SetUpstream(nowhere) }

func (l *lagging) here() { l.front.SetUpstream(l.primary.Addr()) }

// askedStandby reports whether the standby has been asked since before.
func (l *lagging) askedStandby(before faultnet.Stats) bool {
	return l.back.Stats().RoundTrips > before.RoundTrips
}

// TestAStandbyDoesNotSettle loses the answer to a COMMIT that was applied. When the client
// asks what became of it, only a standby is there, which does not have it and on which
// no session has the claim.
func TestAStandbyDoesNotSettle(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, storeName := range []string{harness.Pgx, harness.Postgres} {
		t.Run(storeName, func(t *testing.T) {
			t.Parallel()
			l := newLagging(t, storeName, func(*lagging) error { return nil })
			for _, flow := range []string{flowDo, flowFirst, flowFailure, flowBatch} {
				t.Run(flow, func(t *testing.T) {
					for _, returns := range []bool{true, false} {
						settle := patience
						if !returns {
							settle = 5 * impatient
						}
						err := l.settles(t, flow, returns, settle)
						for ; errors.Is(err, errNotAsked) && settle < patience/4; err = l.settles(t, flow, returns, settle) { // on a slow machine there was no time to
							settle *= 4
						}
						if err != nil {
							t.Errorf("the primary returns in time: %t: %v. %s", returns, err, rerun(t))
						}
					}
				})
			}
		})
	}
}

var errNotAsked = errors.New("the standby was not asked")

// settles has one client lose an answer. The primary returns while the commit is being
// settled, or afterwards.
func (l *lagging) settles(t *testing.T, flow string, returns bool, settle time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before := l.back.Stats()
	var lost atomic.Bool
	s := l.open(t, setup{dsn: l.dsn + "&default_query_exec_mode=exec", conns: 2, engine: once.Config{Settle: settle}, hook: func(place string) {
		if returns && place == "after begin" && lost.Load() && l.askedStandby(before) {
			l.here()
		}
	}})
	defer s.Close()
	fault := faultnet.SwallowAnswer(committing(l.Kind), ready(l.Kind))
	if (flow == flowFailure || flow == flowBatch) && l.Kind == harness.Pgx {
		fault = faultnet.SwallowAnswer("insert into once_operation", ready(l.Kind))
	}
	var trigger *faultnet.Trigger
	c := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey()), first: func() {
		l.away()
		lost.Store(true)
		trigger = l.front.Arm(fault)
	}}
	if flow == flowFirst {
		c.op.Attempt.Number = 1
	}
	got, err := c.ask(ctx)
	l.here()
	select {
	case <-trigger.Done():
	case <-ctx.Done():
		return errors.Join(ctx.Err(), err)
	}
	l.front.Disarm()
	switch {
	case !l.askedStandby(before):
		return fmt.Errorf("%w: %w", errNotAsked, err)
	case returns && err != nil:
		return fmt.Errorf("the primary was back, but the client was told: %w", err)
	case !returns && once.EffectOf(err) != once.EffectInDoubt:
		return fmt.Errorf("of what only the primary knows, the client was told: %w", err)
	}
	if err != nil {
		if got, err = c.insist(ctx); err != nil {
			return err
		}
	}
	return l.truthful(ctx, c, got)
}

// TestAStandbyIsDown: while only a standby is there, replays of what it has are given, unless
// they must be durable, and everything else is told to come back later. When the primary is
// back, no request meets the standby any more.
func TestAStandbyIsDown(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, storeName := range []string{harness.Pgx, harness.Postgres} {
		t.Run(storeName, func(t *testing.T) {
			t.Parallel()
			done := operation("done")
			l := newLagging(t, storeName, func(l *lagging) error {
				_, _, err := l.open(t, setup{}).Do(t.Context(), done, work{key: done.Key, attempt: "first"})
				return err
			})
			for _, level := range append([]level{{name: "default"}}, levels...) {
				t.Run(level.name, func(t *testing.T) {
					if err := l.serves(t, level, done); err != nil {
						t.Errorf("%v. %s", err, rerun(t))
					}
				})
			}
		})
	}
}

func (l *lagging) serves(t *testing.T, at level, done once.Operation) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const conns = 4
	open := func(synced bool) system {
		return l.open(t, setup{dsn: l.dsn, conns: conns, engine: once.Config{Synced: synced, Runs: 1}})
	}
	s, synced := open(false), open(true)
	defer s.Close()
	defer synced.Close()
	l.away()
	l.front.CutAll()
	defer l.here()
	var errs []error
	check := func(what string, ok bool, got any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v", what, got))
		}
	}
	done.Isolation = at.is
	retried := done
	retried.Attempt.Number = 2 // looks first
	for name, op := range map[string]once.Operation{"a replay": done, "a replay for a retry": retried} {
		if name == "a replay" && at.is == store.Serializable && l.Kind == harness.Pgx {
			continue // no transaction of that level begins on a standby
		}
		got, replayed, err := s.Do(ctx, op, work{key: op.Key, attempt: "again"})
		check(name, err == nil && replayed && got.Attempt == "first", err)
	}
	down := func(what string, err error) {
		ok := once.CodeOf(err) == once.CodeUnavailable && once.EffectOf(err) == once.EffectNotApplied && strings.Contains(err.Error(), "in recovery")
		check(what, ok, err)
	}
	_, _, err := synced.Do(ctx, done, work{key: done.Key, attempt: "again"})
	down("a durable replay", err)
	fresh := operation(once.NewKey())
	fresh.Isolation = at.is
	for flow, do := range map[string]func(context.Context, once.Operation, work) (answer, bool, error){flowDo: s.Do, flowJoin: s.Join, flowBatch: s.Batch} {
		runs := 0
		_, _, err := do(ctx, fresh, work{key: fresh.Key, attempt: "early", before: func() { runs++ }})
		if flow == flowBatch && l.Kind == harness.Pgx && once.CodeOf(err) == once.CodeConflict {
			check(flow, once.EffectOf(err) == once.EffectNotApplied, err) // its one run was the batch
			continue
		}
		down(flow, err)
		check(flow+": runs of the handler", runs == 0, runs)
	}
	first := fresh
	first.Attempt.Number = 1
	_, _, err = s.Do(ctx, first, work{key: fresh.Key, attempt: "early"})
	check(flowFirst, once.EffectOf(err) == once.EffectNotApplied && once.CodeOf(err) != once.CodeFailed, err)
	_, err = s.Ledger().Read(ctx, store.ID{Scope: fresh.Scope, Key: fresh.Key})
	check("Read of what is absent", store.KindOf(err) == store.KindUnavailable, err)
	rec, err := s.Ledger().Read(ctx, store.ID{Scope: done.Scope, Key: done.Key})
	check("Read of what is done", err == nil && rec.State == store.StateDone, err)
	_, err = s.Ledger().Swap(ctx, store.Change{ID: store.ID{Scope: fresh.Scope, Key: fresh.Key}, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("c")}})
	check("Swap", store.KindOf(err) == store.KindUnavailable, err)
	all := func() []error {
		var group sync.WaitGroup
		errs := make([]error, 2*conns)
		for i := range errs {
			op := operation(once.NewKey())
			op.Isolation = at.is
			group.Go(func() { _, _, errs[i] = s.Do(ctx, op, work{key: op.Key, attempt: "any"}) })
		}
		group.Wait()
		return errs
	}
	for _, err := range all() { // on each connection of the pool
		down("all at once", err)
	}
	l.here()
	late := joined(all())
	check("with the primary back", late == nil, late)
	got, _, err := s.Do(ctx, fresh, work{key: fresh.Key, attempt: "late"})
	check("what was refused", err == nil && got.Attempt == "late", err)
	return errors.Join(errs...)
}
