package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// TestRelayNATSIsKilled: while messages are added and delivered, the nats-server is killed and started again. All
// messages arrive, those of a key in order.
func TestRelayNATSIsKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	if os.Getenv("ONCE_TORTURE") == "long" {
		on(t, testRelayNATSIsKilled, testRelayNATSIsKilled)
		return
	}
	testRelayNATSIsKilled(t, newPgx(t))
}

func testRelayNATSIsKilled[TX any](t *testing.T, g *fixture[TX]) {
	const writers, each, keys, kills = 4, 60, 7, 3
	n := newJetStream(t, "refunds", "mails")
	start(t, g.relay(natsbroker.Publisher(n.js), outbox.RelayConfig{
		Batch: 20, Policy: &retry.Policy{Attempts: math.MaxInt, Base: 10 * time.Millisecond, Cap: 50 * time.Millisecond, Total: -1},
	}))
	added := make(chan error, writers*each)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				added <- g.do(t.Context(), func(ctx context.Context, tx TX) error {
					return g.box.Add(ctx, tx, event("refunds", fmt.Sprint((w+i)%keys), "keyed"), event("mails", "", "free"))
				})
			}
		})
	}
	for i := range writers * each {
		must(t, <-added)
		if i%(writers*each/kills) == writers*each/kills/2 {
			must(t, n.Kill())
			must(t, n.Restart(t.Context()))
		}
	}
	group.Wait()
	g.waitEmpty(t)
	b := newInbox()
	b.got = n.arrived(t)
	b.check(t, 2*writers*each)
	testenv.Reportf(t, "%d messages, %d kills of nats-server: %d deliveries", 2*writers*each, kills, len(b.got))
}

// TestRelayNATSIsClosed: the server refuses the user from now on, and the client of NATS gives up after the second refusal. Run ends with the
// host and the cause, and without a password. No message has failed.
func TestRelayNATSIsClosed(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t, "refunds"), newSQL(t, "SQLite")
	ended := make(chan error, 1)
	go func() { ended <- g.relay(natsbroker.Publisher(n.js), outbox.RelayConfig{}).Run(t.Context()) }()
	n.Configure(`authorization { user: other, password: "unknown" }`)
	must(t, n.Restart(t.Context()))
	g.mustAdd(t, event("refunds", "a", "late"))
	err := <-ended
	if !outbox.IsClosed(err) || !errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), n.Addr()) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("Run has ended with %v", err)
	}
	if failed := g.count(t, "select count(*) from once_outbox_failed"); failed > 0 {
		t.Errorf("%d messages have failed", failed)
	}
}
