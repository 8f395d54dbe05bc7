package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A phase whose function ends its transaction itself, however it goes on, is unknown: what it has written stands without the phase. It
// runs again only when a person says so.
func TestPhaseThatCommits(t *testing.T) {
	for _, ends := range []string{"returns", "fails", "panics", "swallows"} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, later phase %v", ends, late), func(t *testing.T) {
				s, runs := memstore.New(), 0
				ask := func(commits bool) (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = errDead
						}
					}()
					_, err = once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
						if late {
							if _, err := lease.InTx(ctx, r, s, "a", put("a", "1")); err != nil {
								return "", err
							}
						}
						_, err := lease.InTx(ctx, r, s, "b", func(ctx context.Context, tx *memstore.Tx) (string, error) {
							runs++
							_, err := put("b", "1")(ctx, tx)
							if !commits {
								return "", err
							}
							err = errors.Join(err, tx.Commit())
							switch ends {
							case "fails":
								err = errors.Join(err, errors.New("failed"))
							case "panics":
								panic(errDead)
							}
							return "", err
						})
						if ends == "swallows" && commits {
							if _, err := lease.InTx(ctx, r, s, "c", put("c", "1")); !errors.Is(err, lease.ErrUnknown) {
								t.Errorf("another phase: %v", err)
							}
							err = nil
						}
						return "", err
					})
					return err
				}
				err := ask(true)
				if ends != "panics" {
					wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
					if ends != "swallows" && !strings.Contains(err.Error(), `the writes of phase "b" may be committed`) {
						t.Error(err)
					}
				}
				wantOutcome(t, ask(true), once.CodeUnknown, once.EffectInDoubt)
				rec := wantState(t, s, store.StateUnknown)
				p, err := lease.ProgressOf(id, rec)
				if call := p.Call; err != nil || call == nil || call.Phase != "b" || !call.Tx || call.Key != "" || runs != 1 {
					t.Errorf("%+v, %v, %d runs", call, err, runs)
				}
				if err := lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: p.CallID, RunAgain: true, KeyVoided: true}); store.KindOf(err) != store.KindMisused {
					t.Errorf("there is no key that could be voided: %v", err)
				}
				how, want := lease.Resolution{CallID: p.CallID, RunAgain: true}, 2
				if late { // the tables have told that it has written all
					how, want = lease.Resolution{CallID: p.CallID, CallValue: []byte(`"1"`)}, 1
				}
				must(t, lease.Resolve(t.Context(), s, id, how))
				must(t, ask(false))
				if runs != want {
					t.Errorf("%d runs, want %d", runs, want)
				}
				wantState(t, s, store.StateDone)
			})
		}
	}
}
