package once_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

const slowHandler once.EventType = "slow_handler"

// told is an observer that hands slow handlers over.
type told chan once.Event

func (c told) Observe(_ context.Context, e once.Event) {
	if e.Type == slowHandler {
		c <- e
	}
}

// TestASlowHandlerIsTold: while a handler holds its transaction, the observer is told once for each run, and after the call no more.
func TestASlowHandlerIsTold(t *testing.T) {
	slow := make(told, 10)
	all := new(recorder)
	engine := once.New(memstore.New(), once.Config{SlowHandler: time.Millisecond, Observer: once.Observers(all, slow)})
	op := once.Operation{Name: "slow", Scope: "s", Key: "k"}
	_, err := once.Do(t.Context(), engine, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
		e := <-slow // it comes while the handler runs
		if e.Name != "slow" || e.KeyHash != once.KeyHash("k") || e.Handler != time.Millisecond || e.Runs != 1 || e.Outcome != "" {
			t.Errorf("%+v", e)
		}
		if e.Err == nil || !strings.Contains(e.Err.Error(), "Try: ") {
			t.Errorf("%v", e.Err)
		}
		return "", tx.Insert("refund", "1")
	})
	must(t, err)
	events := all.take()
	if n := len(events); n != 3 || events[1].Type != slowHandler || events[2].Type != once.EventFinished {
		t.Errorf("%+v", events)
	}
	_, err = once.Do(t.Context(), engine, op, func(context.Context, *memstore.Tx) (string, error) { panic("a replay") })
	must(t, err)
	if len(slow) > 0 {
		t.Error("a replay holds nothing")
	}
}

// TestSlowHandlersAreTheCallersOwn: neither a handler that is fast, nor a batch, nor one of an engine without the setting is told of; a negative bound is a mistake.
func TestSlowHandlersAreTheCallersOwn(t *testing.T) {
	slow := make(told, 10)
	for name, bound := range map[string]time.Duration{"off": 0, "fast": time.Hour} {
		engine := once.New(memstore.New(), once.Config{SlowHandler: bound, Observer: slow})
		_, err := once.Do(t.Context(), engine, once.Operation{Scope: "s", Key: name}, func(_ context.Context, tx *memstore.Tx) (string, error) { return "", tx.Insert("refund", "1") })
		must(t, err)
	}
	engine := once.New(memstore.New(), once.Config{SlowHandler: time.Second, Observer: once.Warnings})
	if _, err := once.Do(t.Context(), engine, once.Operation{Scope: "s", Key: "k"}, func(_ context.Context, tx *memstore.Tx) (string, error) { return "", tx.Insert("refund", "1") }); err != nil {
		t.Error(err)
	}
	if len(slow) > 0 {
		t.Errorf("%+v", <-slow)
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative bound is accepted")
		}
	}()
	once.New(memstore.New(), once.Config{SlowHandler: -1})
}
