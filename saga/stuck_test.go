package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

// TestPivotAllowsNoUndo: after the pivot the saga cannot compensate: a "no" and the end of the tries make the saga stuck, and a cancel is
// refused.
func TestPivotAllowsNoUndo(t *testing.T) {
	for name, failure := range map[string]error{"no": &once.Failure{Code: "no"}, "exhausted": errors.New("down")} {
		t.Run(name, func(t *testing.T) {
			in(t, func(g fixture) {
				heals := false
				a, ship := writes("a"), writes("ship").Pivot()
				mail := failing("mail", func() error {
					if heals {
						return nil
					}
					return failure
				})
				d := saga.New("test", flowOf(a, ship, mail), a, ship, mail).Deadline(time.Second)
				_, err := g.do(d)
				g.wantStuck(err, "ship")
				g.cancel(saga.ErrPivot)
				if g.counted("undo a") != 0 {
					g.Error("undone behind the pivot")
				}
				heals = true
				if err := g.decide(retry); err != nil {
					g.Fatal(err)
				}
				v, err := g.do(d)
				if name == "no" { // that was recorded: a person cannot ask again
					g.wantStuck(err, "ship")
				} else if v != "done" || err != nil {
					g.Errorf("%q, %v", v, err)
				}
			})
		})
	}
}

// TestEndsOfPatience: a deadline and the end of the tries make the saga compensate, and its failure says why.
func TestEndsOfPatience(t *testing.T) {
	for code, failure := range map[string]error{saga.CodeDeadline: saga.Again(time.Minute), saga.CodeExhausted: errors.New("down")} {
		in(t, func(g fixture) {
			a, b := writes("a"), failing("b", func() error { return failure })
			d := saga.New("test", flowOf(a, b), a, b).Deadline(time.Hour - time.Minute)
			if _, err := g.do(d); failureOf(err) != code || g.counted("a") != 1 || g.counted("undo a") != 1 {
				g.Errorf("%v, want %s", err, code)
			}
			if s := g.status(); s.State != "compensated" || s.Turned != code || len(s.Steps) != 1 || s.Steps[0].State != "undone" {
				g.Errorf("%+v", s)
			}
		})
	}
}

// TestStuckUndo: an undo has tries of its own. Then a person lets it be tried again, or leaves it out.
func TestStuckUndo(t *testing.T) {
	for _, skips := range []bool{false, true} {
		in(t, func(g fixture) {
			down := true
			a := writes("a")
			b := writes("b").Undo(func(_ context.Context, tx *memstore.Tx, in, _ string) error {
				if down {
					return errors.New("down")
				}
				return count(tx, "undo b")
			})
			c := failing("c", func() error { return &once.Failure{Code: "no"} })
			d := saga.New("test", flowOf(a, b, c), a, b, c)
			_, err := g.do(d)
			g.wantStuck(err, `"b"`, "3 times")
			if err := g.decide(saga.Decision{Action: saga.ActionSkip, Step: "c"}); err == nil {
				g.Error("a step that has failed is left out")
			}
			want := 1
			if skips {
				want = 0
				err = g.decide(saga.Decision{Action: saga.ActionSkip, Step: "b"})
			} else {
				down = false
				err = g.decide(retry)
			}
			if err != nil {
				g.Fatal(err)
			}
			if err := g.decide(retry); err == nil {
				g.Error("a saga that is not stuck is tried again")
			}
			if _, err := g.do(d); failureOf(err) != "no" || g.counted("undo a") != 1 || g.counted("undo b") != want {
				g.Errorf("%v: %d, %d", err, g.counted("undo a"), g.counted("undo b"))
			}
		})
	}
}

// TestForceDecidesAnUnknownCall: a person says what became of a call about which nothing else does.
func TestForceDecidesAnUnknownCall(t *testing.T) {
	for _, happened := range []bool{true, false} {
		in(t, func(g fixture) {
			var keys []string
			charge := saga.Call("charge", func(_ context.Context, key, _ string) (string, error) {
				if keys = append(keys, key); len(keys) == 1 {
					return "", errTimeout
				}
				return "charge 2", nil
			})
			d := saga.New("test", func(ctx saga.Context, in string) (string, error) { return charge.Do(ctx, in) }, charge)
			_, err := g.do(d)
			g.wantStuck(err, `"charge"`)
			if s := g.status().Steps; len(s) != 1 || s[0].State != "calling" || s[0].Key != keys[0] {
				g.Errorf("%+v", s)
			}
			decision := saga.Decision{Action: saga.ActionForce, Step: "charge"}
			want := "charge 2"
			if happened {
				decision.Value, want = json.RawMessage(`"charge 1"`), "charge 1"
			}
			if err := g.decide(decision); err != nil {
				g.Fatal(err)
			}
			if v, err := g.do(d); v != want || err != nil {
				g.Errorf("%q, %v, want %q", v, err, want)
			}
			if !happened && (len(keys) != 2 || keys[0] == keys[1]) {
				g.Errorf("a void key is used again: %q", keys)
			}
		})
	}
}

// TestAVoidKeyDoesNotResetTries: a service that is down is not called for ever, also if each of its keys is voided.
func TestAVoidKeyDoesNotResetTries(t *testing.T) {
	in(t, func(g fixture) {
		calls := 0
		charge := saga.Call("charge", func(context.Context, string, string) (string, error) { calls++; return "", errTimeout }).
			Check(func(context.Context, string) (string, lease.Finding, error) { return "", lease.Voided, nil }).Attempts(5)
		d := saga.New("test", flowOf(charge), charge)
		if _, err := g.do(d); failureOf(err) != saga.CodeExhausted || calls != 5 {
			g.Errorf("%d calls: %v", calls, err)
		}
	})
}

// TestLifeOfAKeyAfterNotYet: a service answers "not yet" for longer than it remembers a key. Then the call takes effect, its answer is lost, and all
// nodes are down until the service has forgotten the key. The call is not made again, neither by the flow nor behind the turn.
func TestLifeOfAKeyAfterNotYet(t *testing.T) {
	const life = time.Hour
	for _, turns := range []bool{false, true} {
		in(t, func(g fixture) {
			calls, lost := 0, make(chan struct{}, 9)
			charge := saga.Call("charge", func(context.Context, string, string) (string, error) {
				if calls++; calls <= 2 {
					return "", saga.Again(2 * life)
				}
				if calls > 3 { // the first repetition is within the life of the key
					lost <- struct{}{}
				}
				return "", errTimeout
			}).DedupedFor(life).Undo(func(context.Context, string, string, string) error { return nil })
			d := saga.New("test", flowOf(charge), charge)
			first, later := g.runner(d), g.runner(d)
			g.start(first, d, sagaID)
			stop := g.run(first)
			<-time.After(life)
			if turns {
				g.cancel(nil)
			}
			select {
			case <-lost:
			case <-time.After(9 * life):
				g.Errorf("%d calls: the call is not made again after \"not yet\"", calls)
			}
			stop()
			<-time.After(life)
			stop = g.run(later)
			<-time.After(life)
			stop()
			if s := g.status(); calls != 4 || s.State != saga.StateStuck {
				g.Errorf("the turn: %t: %d calls, and the saga is %+v", turns, calls, s)
			}
		})
	}
}
