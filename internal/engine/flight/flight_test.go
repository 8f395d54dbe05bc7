package flight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/store"
)

var id = store.ID{Scope: "s", Key: "k"}

// lead joins a flight that must have no leader yet.
func lead(t *testing.T, g *Group) *Flight {
	t.Helper()
	f, leads := g.Join(id)
	if !leads {
		t.Fatal("there is a leader already")
	}
	return f
}

// follow joins a flight that must have a leader.
func follow(t *testing.T, g *Group) *Flight {
	t.Helper()
	f, leads := g.Join(id)
	if leads {
		t.Fatal("there is no leader")
	}
	return f
}

// TestEndOfAWait: every way in which the wait of a follower ends, and when.
func TestEndOfAWait(t *testing.T) {
	down := errors.New("down")
	own := Terms{Isolation: store.Serializable}
	done := store.Record{State: store.StateDone}
	for name, c := range map[string]struct {
		leader func(g *Group, f *Flight) // after a second
		result time.Duration             // that the follower waits for the result
		cancel time.Duration             // 0: never
		want   End
		after  time.Duration
	}{
		"learnt":                              {leader: func(_ *Group, f *Flight) { f.End(id, done, true) }, result: time.Minute, want: EndLearnt, after: time.Second},
		"not final":                           {leader: func(_ *Group, f *Flight) { f.End(id, done, false) }, result: time.Minute, want: EndAgain, after: time.Second},
		"refused":                             {leader: func(_ *Group, f *Flight) { f.Refuse(down, own); f.End(id, done, false) }, want: EndRefused, after: time.Second},
		"refused under other terms":           {leader: func(_ *Group, f *Flight) { f.Refuse(down, Terms{}); f.End(id, done, false) }, want: EndAgain, after: time.Second},
		"runs":                                {leader: func(_ *Group, f *Flight) { f.SetRunning() }, want: EndRunning, after: time.Second},
		"runs, and the result is waited for":  {leader: func(_ *Group, f *Flight) { f.SetRunning() }, result: time.Minute, want: EndRunning, after: time.Minute},
		"a batch":                             {leader: func(_ *Group, f *Flight) { f.SetMaybeRunning() }, want: EndRunning, after: time.Second + batchGrace},
		"a batch that ends at once":           {leader: func(_ *Group, f *Flight) { f.SetMaybeRunning(); f.End(id, done, true) }, want: EndLearnt, after: time.Second},
		"the store is silent":                 {leader: func(*Group, *Flight) {}, want: EndUnknown, after: 5 * time.Second},
		"canceled":                            {leader: func(*Group, *Flight) {}, cancel: 2 * time.Second, want: EndCanceled, after: 2 * time.Second},
		"canceled while the operation runs":   {leader: func(_ *Group, f *Flight) { f.SetRunning() }, result: time.Minute, cancel: 2 * time.Second, want: EndRunning, after: 2 * time.Second},
		"the leader has lost its transaction": {leader: lose, result: time.Minute, want: EndAgain, after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGroup(1, 100)
				leader := lead(t, g)
				f := follow(t, g)
				ctx := t.Context()
				if c.cancel > 0 {
					timeout, cancel := context.WithTimeout(ctx, c.cancel)
					defer cancel()
					ctx = timeout
				}
				time.AfterFunc(time.Second, func() { c.leader(g, leader) })
				began := time.Now()
				rec, end, err := f.Wait(ctx, Patience{Bytes: 1, Result: began.Add(c.result), Answer: began.Add(5 * time.Second), Terms: own})
				if end != c.want || time.Since(began) != c.after {
					t.Errorf("end %d after %v, want %d after %v", end, time.Since(began), c.want, c.after)
				}
				if (rec != nil) != (end == EndLearnt) || (err != nil) != (end == EndRefused || end == EndCanceled) {
					t.Errorf("record %v, error %v", rec, err)
				}
				if g.waiters.calls != 0 || g.waiters.bytes != 0 {
					t.Errorf("%d calls with %d bytes are still counted", g.waiters.calls, g.waiters.bytes)
				}
			})
		})
	}
}

// lose gives the flight a transaction and ends it.
func lose(_ *Group, f *Flight) {
	lost := make(chan struct{})
	f.SetLost(lost)
	f.SetRunning()
	close(lost)
}

// TestALostFlightIsReplaced: the next caller leads, and the end of the first leader is not that
// of the second.
func TestALostFlightIsReplaced(t *testing.T) {
	g := NewGroup(1, 100)
	first := lead(t, g)
	lose(g, first)
	second := lead(t, g)
	first.End(id, store.Record{}, true)
	if follow(t, g) != second {
		t.Error("the end of the first flight was that of the second")
	}
	second.End(id, store.Record{}, true)
	lead(t, g)
}

// TestTooManyWait: neither more calls nor more bytes than were given.
func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(2, 100)
		lead(t, g)
		f := follow(t, g)
		pause := func(bytes int64) {
			go func() {
				if goesOn, err := g.Pause(t.Context(), bytes, time.Minute); !goesOn || err != nil {
					t.Errorf("goes on: %v, error: %v", goesOn, err)
				}
			}()
			synctest.Wait()
		}
		full := func(bytes int64) bool {
			_, end, err := f.Wait(t.Context(), Patience{Bytes: bytes, Result: time.Now(), Answer: time.Now()})
			_, paused := g.Pause(t.Context(), bytes, 0)
			if (end == EndFull) != (err != nil) || (err != nil) != (paused != nil) {
				t.Errorf("end %d, errors %v and %v", end, err, paused)
			}
			return end == EndFull
		}
		pause(60)
		if full(40) || !full(41) {
			t.Error("100 bytes may wait, and no more")
		}
		pause(1)
		if !full(1) {
			t.Error("2 calls may wait, and no more")
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if full(100) {
			t.Error("no caller waits any more")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if goesOn, err := g.Pause(ctx, 1, time.Minute); goesOn || err != nil {
			t.Errorf("goes on: %v, error: %v", goesOn, err)
		}
	})
}
