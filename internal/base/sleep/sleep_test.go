package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
)

// TestForEndsWithTheContext: it waits for the whole time, and not beyond the end of the context.
func TestForEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !sleep.For(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("it was over after %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if sleep.For(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("it was cut short after %v", time.Since(began))
		}
		for range 100 { // no time is no reason to go on after the end
			if sleep.For(ctx, 0) || sleep.For(ctx, -1) || !sleep.For(t.Context(), 0) {
				t.Fatal("a sleep of no time has told another end than that of its context")
			}
		}
	})
}
