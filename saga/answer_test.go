package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

// TestDetailThatIsNoJSON: a "no" of a step, of a call that is resolved while the saga compensates, or of an undo whose Detail is no JSON, such as a
// page of HTML, ends no process: it is stored as a string.
func TestDetailThatIsNoJSON(t *testing.T) {
	no := &once.Failure{Code: "no", Detail: json.RawMessage("<html>")}
	in(t, func(g fixture) {
		a, b := writes("a"), failing("b", func() error { return no })
		_, err := g.do(saga.New("test", flowOf(a, b), a, b))
		var f *once.Failure
		if !errors.As(err, &f) || f.Code != "no" || string(f.Detail) != `"\u003chtml\u003e"` || g.counted("undo a") != 1 {
			g.Errorf("%v, undone %d times: %s", err, g.counted("undo a"), f.Detail)
		}
	})
	in(t, func(g fixture) {
		answer := errTimeout
		call := saga.Call("call", func(context.Context, string, string) (string, error) {
			defer func() { answer = no }()
			return "", answer
		}).SafeToRepeat().Attempts(1).Undo(func(context.Context, string, string, string) error { return nil })
		if _, err := g.do(saga.New("test", flowOf(call), call)); failureOf(err) != saga.CodeExhausted || g.status().Steps[0].Failure != "no" {
			g.Errorf("%v: %+v", err, g.status())
		}
	})
}

// TestNoIsStoredBeforeACall: a call without an intent is made behind a "no" that is not stored yet, and its node dies. The step that has said no would
// say yes now: it is not asked again, and the flow takes the same way.
func TestNoIsStoredBeforeACall(t *testing.T) {
	in(t, func(g fixture) {
		no, calls := true, 0
		died := make(chan struct{})
		visa := failing("visa", func() error {
			if no {
				return &once.Failure{Code: "no"}
			}
			return nil
		})
		m := &mortal{Store: g.db}
		paypal := saga.Call("paypal", func(context.Context, string, string) (string, error) {
			if calls++; calls == 1 {
				no = false
				m.dead.Store(true)
				<-died
			}
			return "", nil
		}).SafeToRepeat()
		first := writes("first")
		d := saga.New("test", func(ctx saga.Context, in string) (string, error) {
			if _, err := first.Do(ctx, in); err != nil {
				return "", err
			}
			if v, err := visa.Do(ctx, in); failureOf(err) == "" {
				return v, err
			}
			return paypal.Do(ctx, in)
		}, first, visa, paypal)
		ended := make(chan error, 1)
		go func() {
			_, err := saga.Do(g.Context(), m.runner(d), d, sagaID, "")
			ended <- err
		}()
		stop := g.run(g.runner(d))
		<-time.After(3 * testTTL)
		stop()
		close(died)
		if err := <-ended; err != nil || g.counted("visa") != 0 || calls != 2 {
			g.Errorf("%v: visa %d times, %d calls of paypal: %+v", err, g.counted("visa"), calls, g.status())
		}
	})
}

// TestGoexitIsAFailure: code of the user that ends its goroutine has failed. Its transaction is rolled back, and its caller is told.
func TestGoexitIsAFailure(t *testing.T) {
	in(t, func(g fixture) {
		a := writes("a")
		b := saga.Tx("b", func(_ context.Context, tx *memstore.Tx, _ string) (string, error) {
			if err := count(tx, "b"); err != nil {
				return "", err
			}
			runtime.Goexit()
			return "", nil
		})
		if _, err := g.do(saga.New("test", flowOf(a, b), a, b)); failureOf(err) != saga.CodeExhausted || g.counted("b") != 0 || g.counted("undo a") != 1 {
			g.Errorf("%v: %d, undone %d times", err, g.counted("b"), g.counted("undo a"))
		}
	})
}
