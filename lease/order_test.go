package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/memstore"
)

// Charge is what a payment service answers.
type Charge struct{ ID string }

// payments is a service that dedupes by the key of a request. Its first answer gets lost.
type payments struct{ charges map[string]Charge }

func (p *payments) Charge(_ context.Context, order int, key string) (Charge, error) {
	if c, before := p.charges[key]; before {
		return c, nil
	}
	p.charges[key] = Charge{"ch_" + key[:4]}
	if len(p.charges) == 1 {
		return Charge{}, errors.New("timeout")
	}
	return p.charges[key], nil
}

// The order of docs/lease.md is paid once, although the first answer gets lost.
func TestAnOrderIsPaidOnce(t *testing.T) {
	ctx, s := t.Context(), memstore.New()
	provider := &payments{map[string]Charge{}}
	reserve := func(_ context.Context, tx *memstore.Tx) (int, error) { return 42, tx.Put("order", "reserved") }
	for i := range 3 {
		paid, err := func() (once.Result[Charge], error) {
			jobs := once.New(lease.New(s, lease.Config{}), once.Config{})

			paid, err := once.Do(ctx, jobs, op, func(ctx context.Context, run *lease.Run) (Charge, error) {
				order, err := lease.InTx(ctx, run, s, "reserve", reserve)
				if err != nil {
					return Charge{}, err
				}
				return lease.Call(ctx, run, "charge", func(ctx context.Context, key string) (Charge, error) {
					return provider.Charge(ctx, order, key)
				}, lease.CallPolicy{DedupedFor: 24 * time.Hour})
			})
			return paid, err
		}()
		if (err == nil) != (i > 0) || i > 0 && paid.Value.ID == "" || paid.Replayed != (i == 2) || len(provider.charges) != 1 {
			t.Errorf("try %d: %+v, %v, charges %v", i, paid, err, provider.charges)
		}
	}
}
