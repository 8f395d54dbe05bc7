package stripetest_test

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// TestStripeForNode: Stripe's client for Node, with the keys that it makes and the retries
// that it decides on, refunds each order once although every fourth answer is lost.
func TestStripeForNode(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "node", "npm")
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s\nTry: a network from which the npm registry can be reached", err, text)
	}
	for _, unsafe := range []bool{false, true} { // the storm is one: without the middleware it refunds twice
		t.Run("unsafe="+strconv.FormatBool(unsafe), func(t *testing.T) {
			onBoth(t, payments.Config{Unsafe: unsafe}, func(g *service) {
				lost := g.proxy.Arm(faultnet.DropEvery(every, "}\n"))
				_, port, err := net.SplitHostPort(g.proxy.Addr())
				must(g.T, err)
				storm := exec.CommandContext(g.Context(), "node", "storm.js")
				storm.Dir = dir
				storm.Env = append(os.Environ(), "PORT="+port, "KEY="+account, "ORDERS="+strconv.Itoa(orders), "CLIENTS="+strconv.Itoa(clients))
				if text, err := storm.CombinedOutput(); err != nil {
					g.Fatalf("%v\n%s", err, text)
				}
				if lost.Count() == 0 || g.repeated() == 0 {
					g.Fatalf("%d answers lost, %d requests repeated: the storm proves nothing", lost.Count(), g.repeated())
				}
				if !unsafe {
					g.once()
				} else if n := g.count("select count(*) from refund"); n <= orders {
					g.Errorf("%d refunds for %d orders: the storm proves nothing", n, orders)
				}
			})
		})
	}
}
