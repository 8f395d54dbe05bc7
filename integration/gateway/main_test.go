package gateway

import (
	"context"
	"testing"

	"github.com/oncelib/once/integration/harness"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

// plan is what a process is: the service, or a gateway with one request.
type plan struct {
	Service *serving
	Gateway *gatewaying
}

// CarryOut implements harness.Plan.
func (p plan) CarryOut(ctx context.Context) error {
	if p.Service != nil {
		return p.Service.run(ctx)
	}
	return p.Gateway.run(ctx)
}
