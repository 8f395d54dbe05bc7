package saga_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// stalls is a store and a tracer. The process that uses it stands still after a write, and at the beginning of a span.
type stalls struct {
	*memstore.Store

	written func()
	spanned func(saga.Span)
}

func (s *stalls) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	rec, err := s.Store.Swap(ctx, c)
	if then := s.written; then != nil {
		s.written = nil
		then()
	}
	return rec, err
}

func (s *stalls) SagaTrace(context.Context) string { return "" }

func (s *stalls) SagaSpan(ctx context.Context, span saga.Span) (_ context.Context, end func(string, error)) {
	if s.spanned != nil {
		s.spanned(span)
	}
	return ctx, func(string, error) {}
}

// keyLife is how long the services of these tests remember a key.
const keyLife = 10 * time.Hour

// patient is a node whose leases and calls outlast the life of a key.
func (s *stalls) patient(attempts int, d *saga.Definition[string, string]) *saga.Runner[*memstore.Tx] {
	return saga.NewRunner[*memstore.Tx](s, saga.Config{
		TTL: 100 * time.Hour, MaxDuration: 1000 * time.Hour, StepTimeout: 20 * time.Hour, Attempts: attempts, UndoAttempts: 3, Backoff: time.Second, MaxBackoff: time.Second,
		Every: time.Second, Retain: once.Forever, Observer: saga.Log(quiet), Tracer: s,
	}, d)
}

// endsInTime tells of a call whose context does not end before the service may forget the key.
func (g fixture) endsInTime(ctx context.Context) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) <= 0 || time.Until(end) > keyLife*9/10 {
		g.Errorf("the context of the call ends in %v (%t)", time.Until(end), ok)
	}
}

// TestNoCallAfterItsKeyMayBeForgotten: a process stands still between the intent and the call until the service may forget the key. The call is not
// made, and is known to be unmade: the next try makes the call under a new intent, also behind the turn.
func TestNoCallAfterItsKeyMayBeForgotten(t *testing.T) {
	for _, turns := range []bool{false, true} {
		for _, stands := range []time.Duration{9*time.Hour - 1, 9 * time.Hour, 11 * time.Hour} {
			t.Run(fmt.Sprint(turns, stands), func(t *testing.T) {
				in(t, func(g fixture) {
					s, calls, undone := &stalls{Store: g.db}, 0, 0
					stand := func() { <-time.After(stands) }
					charge := saga.Call("charge", func(ctx context.Context, _, _ string) (string, error) {
						calls++
						if g.endsInTime(ctx); turns && calls == 1 {
							time.AfterFunc(time.Minute, func() { g.cancel(nil) }) // while the saga waits
							s.spanned = func(span saga.Span) {
								if span.Kind == saga.SpanStep { // the new intent is stored
									s.spanned = nil
									stand()
								}
							}
							return "", saga.Again(time.Hour)
						}
						return "done", nil
					}).DedupedFor(keyLife).Check(func(context.Context, string) (string, lease.Finding, error) {
						g.Error("the service is asked about a call that was not made")
						return "", lease.Unclear, nil
					}).Undo(func(context.Context, string, string, string) error { undone++; return nil })
					d := saga.New("test", flowOf(charge), charge)
					began, want := time.Now(), 1
					if !turns {
						s.written = stand
					}
					v, err := saga.Do(g.Context(), s.patient(3, d), d, sagaID, "")
					if turns {
						if want = 2; failureOf(err) != saga.CodeCancelled || undone != 1 {
							g.Errorf("%v, undone %d times", err, undone)
						}
					} else if v != "done" || err != nil {
						g.Errorf("%q, %v", v, err)
					}
					if calls != want || time.Since(began) < stands {
						g.Errorf("%d calls in %v, want %d", calls, time.Since(began), want)
					}
					<-time.After(1000 * time.Hour) // heartbeats end
				})
			})
		}
	}
}

// TestNoRepetitionAfterItsKeyMayBeForgotten: a process stands still before it makes a call again, until the service may forget the key. The call is
// not made again: the service is asked if the step has a Check, and otherwise the saga is stuck. The same holds behind the turn.
func TestNoRepetitionAfterItsKeyMayBeForgotten(t *testing.T) {
	const none = lease.Finding(99)
	for _, turns := range []bool{false, true} {
		for _, tt := range []struct {
			name   string
			found  lease.Finding
			stands time.Duration
		}{{"in time", none, time.Hour}, {"late", none, 10 * time.Hour}, {"late, it happened", lease.Happened, 10 * time.Hour}, {"late, voided", lease.Voided, 10 * time.Hour}} {
			t.Run(fmt.Sprint(tt.name, turns), func(t *testing.T) {
				in(t, func(g fixture) {
					s, spans, undone := &stalls{Store: g.db}, 0, 0
					var keys []string
					s.spanned = func(span saga.Span) {
						if span.Kind == saga.SpanStep {
							if spans++; spans == 2 {
								<-time.After(tt.stands)
							}
						}
					}
					charge := saga.Call("charge", func(ctx context.Context, key, _ string) (string, error) {
						g.endsInTime(ctx)
						if keys = append(keys, key); len(keys) == 1 {
							return "", errTimeout
						}
						return "done", nil
					}).DedupedFor(keyLife).Undo(func(context.Context, string, string, string) error { undone++; return nil })
					if tt.found != none {
						charge = charge.Check(func(context.Context, string) (string, lease.Finding, error) { return "done", tt.found, nil })
					}
					attempts := 2
					if turns {
						attempts = 1
					}
					d := saga.New("test", flowOf(charge), charge)
					v, err := saga.Do(g.Context(), s.patient(attempts, d), d, sagaID, "")
					calls, undos := 1, 0
					switch late := tt.stands > keyLife*9/10; {
					case late && tt.found == none:
						g.wantStuck(err, `"charge"`)
					case turns:
						if !late {
							calls = 2
						}
						if tt.found != lease.Voided {
							undos = 1
						}
						if failureOf(err) != saga.CodeExhausted {
							g.Error(err)
						}
					default:
						if tt.found != lease.Happened {
							calls = 2
						}
						if v != "done" || err != nil {
							g.Errorf("%q, %v", v, err)
						}
					}
					if len(keys) != calls || undone != undos {
						g.Errorf("%d calls, want %d; undone %d times, want %d", len(keys), calls, undone, undos)
					}
					if calls == 2 && (keys[0] == keys[1]) == (tt.found == lease.Voided) {
						g.Errorf("the keys are %q", keys)
					}
					<-time.After(1000 * time.Hour) // heartbeats end
				})
			})
		}
	}
}

// TestNoCallByANodeThatStoodStill: a node stands still between the intent and the call, for longer than its lease lasts. If another node has taken the
// saga over, only the other node makes the call. If no node has taken it over, the call is made.
func TestNoCallByANodeThatStoodStill(t *testing.T) {
	for _, taken := range []bool{false, true} {
		in(t, func(g fixture) {
			s, other := &stalls{Store: g.db}, false
			var first, second int
			charge := saga.Call("charge", func(context.Context, string, string) (string, error) {
				if other {
					second++
				} else {
					first++
				}
				return "done", nil
			}).DedupedFor(keyLife)
			d := saga.New("test", flowOf(charge), charge)
			s.written = func() {
				<-time.After(2 * testTTL)
				if !taken {
					return
				}
				other = true
				if v, err := g.do(d); v != "done" || err != nil {
					g.Errorf("the other node: %q, %v", v, err)
				}
				other = false
			}
			r := saga.NewRunner[*memstore.Tx](s, saga.Config{TTL: testTTL, Every: time.Second, Retain: once.Forever, Observer: saga.Log(quiet)}, d)
			if v, err := saga.Do(g.Context(), r, d, sagaID, ""); v != "done" || err != nil {
				g.Errorf("%q, %v", v, err)
			}
			if want := map[bool]int{false: 1}[taken]; first != want || second != 1-want {
				g.Errorf("taken over %t: %d calls, and %d of the other node", taken, first, second)
			}
		})
	}
}
