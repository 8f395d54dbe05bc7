package txlimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleTimeOfATransaction: time in which a call is under way, or in which no handler has the transaction, is
// not idle.
func TestIdleTimeOfATransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended time.Duration
		w := Start(Limits{Idle: time.Second}, func() { ended = time.Since(began) })
		<-time.After(10 * time.Second)
		w.Hold(true)
		<-time.After(900 * time.Millisecond)
		if err := w.Enter(false); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		w.Leave()
		<-w.Ended()
		if want := 21900 * time.Millisecond; ended != want {
			t.Errorf("ended after %v, want %v", ended, want)
		}
		var timeout *TimeoutError
		if err := w.Enter(false); !errors.As(err, &timeout) || timeout.SQLState() != "25P03" || timeout.Whole() {
			t.Errorf("Enter() = %v", err)
		}
		if err := w.Enter(true); err != nil {
			t.Errorf("rows cannot be closed: %v", err)
		}
		w.Leave()
		if err := w.Lift(); !errors.As(err, &timeout) {
			t.Errorf("Lift() = %v", err)
		}
	})
}

// TestFinishLiftsAllLimits: after COMMIT has begun no limit ends the transaction.
func TestFinishLiftsAllLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := Start(Limits{Idle: time.Second, Whole: time.Second}, func() { t.Error("ended") })
		w.Hold(true)
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if err := w.Lift(); err != nil {
			t.Errorf("Lift() = %v", err)
		}
	})
}

// TestStatementTimeExcludesPauses: the time between two calls of a statement is not counted, and a context that
// its caller has ended is not a timeout.
func TestStatementTimeExcludesPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := Start(Limits{Statement: time.Second}, func() { t.Error("ended") })
		ctx, s := w.Statement(t.Context())
		call := func(d time.Duration) error {
			s.Start()
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			return s.Stop(ctx.Err(), true)
		}
		for range 3 {
			if err := call(300 * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute)
		}
		var timeout *TimeoutError
		if err := call(300 * time.Millisecond); !errors.As(err, &timeout) || timeout.SQLState() != "57014" {
			t.Errorf("after 1.2 s: %v", err)
		}
		s.Release()

		caller, cancel := context.WithCancel(t.Context())
		ctx, s = w.Statement(caller)
		cancel()
		if err := call(time.Minute); !errors.Is(err, context.Canceled) || errors.As(err, &timeout) {
			t.Errorf("cancelled: %v", err)
		}
		s.Release()
	})
}

// TestNoLimits: nothing is watched, and nothing fails.
func TestNoLimits(t *testing.T) {
	t.Parallel()
	w := Start(Limits{}, func() { t.Error("ended") })
	ctx, s := w.Statement(t.Context())
	s.Start()
	w.Hold(true)
	if err := errors.Join(w.Enter(false), s.Stop(nil, true), w.Finish(), w.Lift()); w != nil || s != nil || ctx != t.Context() || err != nil || w.Ended() != nil {
		t.Error(w, s, err)
	}
	s.Release()
	w.Leave()
}
