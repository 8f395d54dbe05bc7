package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A name that cannot be stored as it is would be another one for the next owner, which makes the call again; or none could be stored. It
// is refused before anything runs.
func TestNamesOfPhases(t *testing.T) {
	long := strings.Repeat("é", 127)
	for name, right := range map[string]bool{
		"": false, "charge \xff": false, "charge\n": false, "charge\x00": false, "charge\x7f": false, "charge\u0085": false, long + "ab": false,
		long + "a": true, "charge of row 7, \"é\" <&>\u2028": true,
	} {
		for kind, phase := range map[string]func(ctx context.Context, r *lease.Run, s *memstore.Store) error{
			"call": func(ctx context.Context, r *lease.Run, _ *memstore.Store) error {
				_, err := lease.Call(ctx, r, name, func(context.Context, string) (string, error) {
					if !right {
						t.Errorf("%q: the call is made", name)
					}
					return "", nil
				}, lease.CallPolicy{})
				return err
			},
			"phase": func(ctx context.Context, r *lease.Run, s *memstore.Store) error {
				_, err := lease.InTx(ctx, r, s, name, put("a", "1"))
				return err
			},
		} {
			s := memstore.New()
			_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) { return "", phase(ctx, r, s) })
			if right {
				must(t, err)
				continue
			}
			wantOutcome(t, err, once.CodeFailed, once.EffectNotApplied)
			if _, written := s.Get("a"); written || !errors.Is(err, lease.ErrMisused) {
				t.Errorf("%s %q: written %v, %v", kind, name, written, err)
			}
			wantState(t, s, store.StateAbsent)
		}
	}
}
