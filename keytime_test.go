package once_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// made is a key of that time.
func made(t time.Time) string {
	ms := fmt.Sprintf("%012x", t.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7" + strings.Repeat("0", 3) + "-8000-000000000000"
}

func TestKeyTimeOfEveryByte(t *testing.T) {
	then := time.UnixMilli(1767225600123)
	for _, key := range []string{made(then), strings.ToUpper(made(then)), "shop:live:v1:" + made(then)} {
		if got, ok := keyname.Time(key); !ok || !got.Equal(then) {
			t.Errorf("%s: %v, %v", key, got, ok)
		}
	}
	good := made(then)
	for i := range good {
		for _, c := range "-g" {
			if bad := good[:i] + string(c) + good[i+1:]; bad != good {
				if at, ok := keyname.Time(bad); ok {
					t.Errorf("%s: %v", bad, at)
				}
			}
		}
	}
	for _, key := range []string{"", good[1:], good + "0", strings.Replace(good, "-7", "-4", 1), strings.Replace(good, "-8", "-c", 1)} {
		if at, ok := keyname.Time(key); ok {
			t.Errorf("%q: %v", key, at)
		}
	}
}

// TestOnlyWhatIsSaidToBeNewIsNotLookedUp, and only until anything says otherwise.
func TestOnlyWhatIsSaidToBeNewIsNotLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []bool
		busy := 0
		s := &spy{Store: memstore.New()}
		s.begin = func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
			asked = append(asked, ask.First)
			if busy--; busy >= 0 {
				return nil, store.Record{State: store.StateRunning}, nil
			}
			return s.Store.Begin(ctx, ask)
		}
		e := once.New(s, once.Config{HashKeys: true})
		for _, c := range []struct {
			name string
			op   once.Operation
			busy int
			want []bool
		}{
			{"that says nothing", once.Operation{Key: once.NewKey()}, 0, []bool{false}},
			{"said to be new", once.Operation{Key: "order-2", Attempt: once.Attempt{Number: 1}}, 0, []bool{true}},
			{"that had to wait", once.Operation{Key: "order-3", Attempt: once.Attempt{Number: 1}, Wait: time.Minute}, 3, []bool{true, false, false, false}},
		} {
			asked, busy = nil, c.busy
			c.op.Scope = "s"
			if _, err := once.Do(t.Context(), e, c.op, charge(c.name)); err != nil || !slices.Equal(asked, c.want) {
				t.Errorf("a key %s: %v, want %v; %v", c.name, asked, c.want, err)
			}
		}
	})
}
