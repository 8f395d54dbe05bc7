package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// A commit that waits for its synchronous standby, and whose client gives up, is
// visible on the primary and nowhere else. A replay of it that is only read
// acknowledges what the next failover takes away.

// impatient bounds a COMMIT, on pgxstore, and then settling it.
const impatient = 300 * time.Millisecond

var settings = map[string]bool{"local": false, "synced": true}

// TestReplaysSurviveAFailover: with Config.Synced nothing is missing after a failover
// that was acknowledged before; and without, something is, or this test shows nothing.
// The nodes have a cache, which must know of no commit that no caller was told of.
func TestReplaysSurviveAFailover(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		for name, synced := range settings {
			t.Run(store+"/"+name, func(t *testing.T) {
				t.Parallel()
				if err := survive(t, newPair(t, store), synced); err != nil {
					t.Errorf("%v. %s", err, rerun(t))
				}
			})
		}
	}
}

func survive(t *testing.T, p *pair, synced bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	s := p.open(t, setup{conns: 40, engine: once.Config{Runs: 1, Settle: impatient, Synced: synced, Cache: 1 << 20, CacheFor: time.Hour}})
	if err := healed(ctx, p, s, synced); err != nil {
		return fmt.Errorf("before the failover: %w", err)
	}
	acked := map[*client]answer{}
	kept := &client{s: s, name: "client", flow: flowDo, op: operation(once.NewKey())}
	a, err := kept.insist(ctx)
	if err != nil {
		return err
	}
	acked[kept] = a

	if err := p.standby.Cut(ctx); err != nil {
		return err
	}
	var phantoms []*client
	for _, ph := range []struct{ flow, end string }{
		{flowDo, "pg_terminate_backend"},
		{flowFailure, "pg_terminate_backend"},
		{flowDo, ""},
	} {
		c := &client{s: s, name: "client", flow: ph.flow, op: operation(once.NewKey())}
		if err := p.phantom(ctx, c, ph.end); err != nil {
			return fmt.Errorf("%s, ended by %q: %w", ph.flow, ph.end, err)
		}
		phantoms = append(phantoms, c)
		replayed, err := retry(ctx, c, synced)
		if err != nil {
			return fmt.Errorf("%s, ended by %q: %w", ph.flow, ph.end, err)
		}
		if replayed != nil {
			acked[c] = *replayed
		}
	}
	if want := map[bool]int{true: 1, false: 1 + len(phantoms)}[synced]; len(acked) != want {
		return fmt.Errorf("%d operations were acknowledged, want %d", len(acked), want)
	}

	if err := p.failover(ctx); err != nil {
		return err
	}
	var lost []*client
	for c := range acked {
		s, err := p.state(ctx, c.op.Key)
		if err != nil {
			return err
		}
		if s.Keys == 0 {
			lost = append(lost, c)
		}
	}
	switch {
	case synced && len(lost) > 0:
		return fmt.Errorf("%d acknowledged operations are missing after the failover", len(lost))
	case !synced && len(lost) != len(phantoms):
		return fmt.Errorf("%d of %d phantoms are missing: the hazard was not met", len(lost), len(phantoms))
	}
	for _, c := range slices.Concat(phantoms, []*client{kept}) { // life goes on, through the same pool
		if a, err = c.insist(ctx); err == nil {
			err = p.truthful(ctx, c, a)
		}
		if err != nil {
			return fmt.Errorf("on the new primary: %w", err)
		}
	}
	return nil
}

// healed: when the standby is back, replays are, too.
func healed(ctx context.Context, p *pair, s system, synced bool) error {
	if err := p.standby.Cut(ctx); err != nil {
		return err
	}
	c := &client{s: s, name: "client", flow: flowDo, op: operation(once.NewKey())}
	if err := p.phantom(ctx, c, "pg_terminate_backend"); err != nil {
		return err
	}
	if _, err := retry(ctx, c, synced); err != nil {
		return err
	}
	if err := p.standby.Heal(ctx); err != nil {
		return err
	}
	a, err := c.insist(ctx)
	if err == nil && a.Attempt != "client-0" {
		err = fmt.Errorf("the answer is %+v", a)
	}
	return errors.Join(err, p.truthful(ctx, c, a))
}

// TestALostRaceIsDurable: a final failure has rolled back, and before it is stored
// another caller has done the operation, with a commit that only the primary has.
func TestALostRaceIsDurable(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, store)
			for _, name := range slices.Sorted(maps.Keys(settings)) {
				if err := loseRace(t, p, settings[name]); err != nil {
					t.Fatalf("%s: %v. %s", name, err, rerun(t))
				}
			}
		})
	}
}

func loseRace(t *testing.T, p *pair, synced bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.standby.Cut(ctx); err != nil {
		return err
	}
	winner := &client{
		s:    p.open(t, setup{engine: once.Config{Settle: impatient, Synced: synced}}),
		name: "winner", flow: flowDo, op: operation(once.NewKey()),
	}
	brief, stop := context.WithCancel(ctx) // the loser's patience, once it has lost
	defer stop()
	var won error
	races := 0
	loser := p.open(t, setup{engine: once.Config{Settle: patience, Retain: time.Hour, Synced: synced}, hook: func(place string) {
		if place == "before swap" {
			races++
			won = p.phantom(ctx, winner, "pg_terminate_backend")
			if synced { // else it is answered
				time.AfterFunc(2*impatient, stop)
			}
		}
	}})
	got, replayed, err := loser.Do(brief, winner.op, work{key: winner.op.Key, attempt: "loser", fails: true})
	switch {
	case won != nil || races != 1:
		return fmt.Errorf("%d races, and the winner: %w", races, won)
	case synced && (err == nil || once.EffectOf(err) == once.EffectApplied):
		return fmt.Errorf("the loser was told what the standby has not got: %+v, %w", got, err)
	case !synced && (err != nil || !replayed || got.Attempt != "winner-0"):
		return fmt.Errorf("the loser was told %+v, %w: the hazard was not met", got, err)
	}
	if err := p.standby.Heal(ctx); err != nil {
		return err
	}
	got, _, err = loser.Do(ctx, winner.op, work{key: winner.op.Key, attempt: "loser", fails: true})
	if err == nil && got.Attempt != "winner-0" {
		err = fmt.Errorf("the answer is %+v", got)
	}
	return errors.Join(err, p.truthful(ctx, winner, got))
}

// TestACancelledWaitIsNotSuccess: a client that tells the server to cancel, where pgx
// is configured to do so, gets COMMIT answered as if the standby had it. (A COMMIT
// after Join is the caller's own.)
func TestACancelledWaitIsNotSuccess(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, store)
			s := p.open(t, setup{conns: 40, asks: true, engine: once.Config{Runs: 1, Settle: impatient, Synced: true}})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := p.standby.Cut(ctx); err != nil {
				t.Fatal(err)
			}
			for _, flow := range []string{flowDo, flowFailure} {
				c := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey())}
				if err := p.phantom(ctx, c, ""); err != nil {
					t.Fatalf("%s: %v. %s", flow, err, rerun(t))
				}
				if _, err := retry(ctx, c, true, joining); err != nil {
					t.Errorf("%s: %v. %s", flow, err, rerun(t))
				}
			}
		})
	}
}
