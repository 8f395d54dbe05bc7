package lease

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
)

// TestChangedProgram: a process is killed in the middle of an operation, and its successor runs another version of the program. Phases go
// by name: those that have ended are not executed again wherever they come, new ones are executed when they are reached, and those that
// are gone are left as they are. While a call is under way, nothing else begins.
func TestChangedProgram(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, true)
		p := program{db: o.mustOpen(t), url: service.URL, policy: deduped, by: "successor", ttl: patience}
		defer p.db.close()
		afterBook := plan{Opening: o, URL: service.URL, Policy: deduped, Kind: byName, Named: "committed", At: 2}
		inCharge := plan{Opening: o, URL: service.URL, Policy: deduped, Kind: byName, Named: "request", At: 1}
		for _, tt := range []struct {
			name   string
			killed plan
			phases []string // of the new program
			wrote  []string // when it has run
			ends   bool
		}{
			{"the same", afterBook, []string{"reserve", "charge", "book", "close"}, []string{"book", "close", "reserve"}, true},
			{"added", afterBook, []string{"audit", "reserve", "charge", "check", "book", "close"}, []string{"audit", "book", "check", "close", "reserve"}, true},
			{"removed", afterBook, []string{"reserve", "charge", "close"}, []string{"book", "close", "reserve"}, true},
			{"renamed", afterBook, []string{"reserve", "charge", "ledger", "close"}, []string{"book", "close", "ledger", "reserve"}, true},
			{"reordered", afterBook, []string{"book", "charge", "reserve", "close"}, []string{"book", "close", "reserve"}, true},
			{"the call is later", inCharge, []string{"reserve", "audit", "charge", "close"}, []string{"reserve"}, false},
			{"the call is removed", inCharge, []string{"reserve", "book", "close"}, []string{"reserve"}, false},
			{"the call is renamed", inCharge, []string{"reserve", "notify", "book", "close"}, []string{"reserve"}, false},
		} {
			k := tt.killed.killed(t, tt.name)
			err := p.runs(t, k.Key, tt.phases)
			if tt.ends && err != nil || !tt.ends && (once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectInDoubt || !errors.Is(err, lease.ErrUnknown)) {
				t.Errorf("%s: %v", tt.name, err)
			}
			var wrote []string
			for phase, values := range p.rows(t, k.Key) {
				if wrote = append(wrote, phase); len(values) != 1 {
					t.Errorf("%s: %q has written %q", tt.name, phase, values)
				}
			}
			if slices.Sort(wrote); !slices.Equal(wrote, tt.wrote) {
				t.Errorf("%s: %q have written, want %q", tt.name, wrote, tt.wrote)
			}
			if !tt.ends { // the version that was killed finishes
				p.insist(t, k.Key)
				p.wantDone(t, service, k.Key, tt.name)
			}
			if requests, effects := service.of(k.Key, "charge"); len(effects) != 1 || len(effects[requests[0].key]) != 1 {
				t.Errorf("%s: %+v %q", tt.name, requests, effects)
			}
		}
	})
}

// runs executes a program with these phases, as soon as the operation can be taken over.
func (p program) runs(t *testing.T, key string, phases []string) (err error) {
	t.Helper()
	e, _ := p.engine()
	harness.Until(t, func() error {
		_, err = once.Do(t.Context(), e, operation(key), func(ctx context.Context, r *lease.Run) (last string, err error) {
			for _, phase := range phases {
				switch phase {
				case "charge", "notify":
					last, err = p.call(ctx, r, key, phase, nil)
				default:
					last, err = p.write(ctx, r, key, phase, phase)
				}
				if err != nil {
					return "", err
				}
			}
			return last, nil
		})
		if once.CodeOf(err) == once.CodeInFlight {
			return err
		}
		return nil
	})
	return err
}
