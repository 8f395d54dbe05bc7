package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/retry"
)

type keyOfTest struct{}

// model is what sending does, made at once: a context and a timer.
type model struct {
	context.Context //nolint:containedctx // it is one

	end   context.CancelCauseFunc
	timer *time.Timer
}

func newModel(parent context.Context, limit time.Duration) *model {
	m := new(model)
	m.Context, m.end = context.WithCancelCause(parent)
	m.timer = time.AfterFunc(limit, func() { m.end(errSlow) })
	return m
}

// A sending is what it would be if it were made at once, whatever is done to it, to what it
// is derived from and to what is derived from it. Only the end of its time
// is not seen before it is looked at.
func TestSendingIsAsMadeAtOnce(t *testing.T) {
	seed := rand.Uint64()
	asleep, ends := map[bool]int{}, map[string]int{}
	for n := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, n))
			parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), keyOfTest{}, "parent's"))
			defer cancel(nil)
			limit := time.Duration(1+r.IntN(6)) * time.Second
			ours := &sending{Context: lazy.Context{Parent: parent, Until: lazy.Never}}
			ours.limit.Store(int64(lazy.Now().Add(limit)))
			std := newModel(parent, limit)
			all := [2][]context.Context{{ours}, {std}}
			over := false // answered, or ended: whether that was in time is not asked
			var steps []string
			look := func() {
				synctest.Wait()
				for i := range all[0] {
					if a, b := about(all[0][i]), about(all[1][i]); a != b {
						t.Errorf("context %d is %s, and %s if made at once", i, a, b)
					}
				}
			}
			for range r.IntN(12) {
				synctest.Wait()
				if !over {
					_ = ours.Err() // looked at before something else can end it
				}
				switch op := r.IntN(9); {
				case op == 0:
					steps = append(steps, "the caller's is cancelled")
					cancel(fmt.Errorf("cause %d", r.IntN(2)))
				case op == 1:
					steps = append(steps, "end")
					over = true
					ours.cancel(nil)
					std.end(nil)
					std.timer.Stop()
				case op == 2:
					steps = append(steps, "lost")
					over = true
					ours.cancel(errLost)
					std.end(errLost)
				case op == 3 && !over:
					steps = append(steps, "answered")
					over = true
					if a, b := ours.inTime(), std.timer.Stop(); a != b {
						t.Errorf("in time: %v, and %v if made at once", a, b)
					}
				case op == 4 && len(all[0]) < 5:
					steps = append(steps, "derived")
					from := r.IntN(len(all[0]))
					for side := range all {
						child, stop := context.WithCancel(all[side][from])
						defer stop()
						all[side] = append(all[side], child, context.WithoutCancel(child))
					}
				case op <= 6:
					steps = append(steps, "time passes")
					for range r.IntN(3) {
						if <-time.After(time.Second); !over {
							_ = ours.Err()
						}
					}
				default:
					steps = append(steps, "look")
					look()
				}
			}
			if ours.timer == nil {
				asleep[over]++
			}
			look()
			ends[fmt.Sprint(context.Cause(ours))]++
			if t.Failed() {
				t.Fatalf("seed %d, run %d: %q", seed, n, steps)
			}
		})
	}
	if asleep[false] == 0 || asleep[true] == 0 {
		t.Error("a caller always waited")
	}
	for _, want := range []string{"<nil>", "context canceled", "cause 1", errSlow.Error(), errLost.Error()} {
		if ends[want] == 0 {
			t.Errorf("none ended with %s: %v", want, ends)
		}
	}
}

func about(ctx context.Context) string {
	over := false
	select {
	case <-ctx.Done():
		over = true
	default:
	}
	_, due := ctx.Deadline()
	return fmt.Sprintf("over %v, error %v, cause %v, deadline %v, value %v, none %v",
		over, ctx.Err(), context.Cause(ctx), due, ctx.Value(keyOfTest{}), ctx.Value("none"))
}

type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What a base leaves behind may ask all of it at any time, and is told when it is over.
func TestSendingIsSafe(t *testing.T) {
	for _, hedge := range []time.Duration{0, time.Nanosecond} {
		for range 100 {
			var wg, both sync.WaitGroup
			if hedge > 0 {
				both.Add(2)
			}
			rt := &Transport{Hedge: hedge, Policy: retry.Policy{Budget: &retry.Budget{Burst: -1}}, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				ctx := r.Context()
				for _, ask := range []func(){
					func() { <-ctx.Done() },
					func() {
						for ctx.Err() == nil {
							runtime.Gosched()
						}
					},
					func() { _, _ = ctx.Deadline() },
					func() { _ = ctx.Value(keyOfTest{}) },
					func() { _ = fmt.Sprint(ctx) },
					func() {
						child, stop := context.WithCancel(ctx)
						defer stop()
						<-child.Done()
					},
				} {
					wg.Go(ask)
				}
				if hedge > 0 {
					both.Done()
					both.Wait()
				}
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("text")), Request: r}, nil
			})}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service.example", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			wg.Wait()
		}
	}
}

// A base that does not look at its context is found out when it answers too late; one that
// looks for the first time when the answer is there is left its time for the body.
func TestSendingOfWhoDoesNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := []time.Duration{2 * time.Second, 0}
		var attempt context.Context
		rt := &Transport{Base: baseFunc(func(r *http.Request) (*http.Response, error) {
			attempt = r.Context() //nolint:fatcontext // to see how it ends
			<-time.After(took[0])
			took = slices.Delete(took, 0, 1)
			return &http.Response{StatusCode: http.StatusOK, Body: &patient{r.Context(), 5 * time.Second}, ContentLength: -1}, nil
		})}
		rt.Policy.Timeout, rt.Policy.Base = time.Second, -1
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://late.example", nil)
		resp, err := rt.RoundTrip(r)
		if err != nil || len(took) != 0 {
			t.Fatalf("%v, with %d attempts to go", err, len(took))
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("the body: %v", err)
		}
		resp.Body.Close()
		if err := attempt.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("in the end: %v", err)
		}
	})
}

// patient is a body that takes its time, unless its context ends.
type patient struct {
	ctx  context.Context //nolint:containedctx // a body has one
	wait time.Duration
}

func (p *patient) Read([]byte) (int, error) {
	select {
	case <-time.After(p.wait):
		return 0, io.EOF
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
}

func (*patient) Close() error { return nil }
