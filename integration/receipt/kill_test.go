package receipt

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestMain starts the processes of the tests.
func TestMain(m *testing.M) { harness.Main[plan](m) }

// plan is what a gateway does: it settles an operation.
type plan struct {
	harness.Database

	Operation string
	At        int // it kills itself at this point
}

// CarryOut implements harness.Plan.
func (p plan) CarryOut(ctx context.Context) error {
	return p.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return settles(ctx, p, s) },
		func(s harness.Store[*sql.Tx]) error { return settles(ctx, p, s) })
}

func settles[TX any](ctx context.Context, p plan, s harness.Store[TX]) error {
	passed := 0
	points := &harness.Points[TX]{Store: s, At: func(string) {
		if passed++; passed == p.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	_, err := receipt.New(points, receipt.Config{}).Settle(ctx, p.Operation)
	return err
}

// TestKilledSettler: a gateway is killed (SIGKILL) before and after each statement of a Settle. Either the service can commit, or the next
// gateway finds the tombstone: never both.
func TestKilledSettler(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		s := newService(t, kind)
		r := s.table(t, time.Minute)
		receipts, tombstones := 0, 0
		harness.Loop(t, 4, func(at int) bool {
			p := plan{s.Database, fmt.Sprintf("point-%d", at), at}
			_, killed := harness.Start(t, p).End(t)
			committed := s.finished(t.Context(), p.Operation)
			got, err := r.Settle(t.Context(), p.Operation)
			must(t, err)
			if committed == got.Tombstone {
				t.Errorf("point %d: the service has committed: %t, and it is settled as %+v", at, committed, got)
			}
			s.judge(t, p.Operation, got)
			if got.Tombstone {
				tombstones++
			} else {
				receipts++
			}
			return killed
		})
		testenv.Reportf(t, "%s: killed, then %d receipts, %d tombstones", kind, receipts, tombstones)
		if receipts == 0 || tombstones < 2 {
			t.Errorf("vacuous: %d receipts, %d tombstones", receipts, tombstones)
		}
	})
}
