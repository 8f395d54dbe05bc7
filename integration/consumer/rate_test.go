package consumer

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// TestKafkaRate: two partitions with messages in trouble beside two healthy ones, whose messages are all applied. It reports how fast that is,
// compared with the same partitions alone: with ONCE_TORTURE=long at full size, as the median of five pairs.
func TestKafkaRate(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	pairs, healthy := 1, 1000
	if os.Getenv("ONCE_TORTURE") == "long" {
		pairs, healthy = 5, 10000
	}
	for name, trouble := range map[string]func(i int) []message.Message{
		"600 fail":       func(i int) []message.Message { return eventsOf(fmt.Sprint("sick ", i), 1, 1) },
		"gaps of 2 keys": func(i int) []message.Message { return eventsOf(fmt.Sprint("sick ", i%2), int64(i/2+2), int64(i/2+2)) },
	} {
		t.Run(name, func(t *testing.T) {
			var ratios []float64
			for range pairs {
				alone := testKafkaRate(t, healthy, nil)
				ratios = append(ratios, alone.Seconds()/testKafkaRate(t, healthy, trouble).Seconds())
			}
			slices.Sort(ratios)
			testenv.Reportf(t, "the rate beside trouble is %.2f of that alone (%d pairs: %.2f to %.2f)", ratios[pairs/2], pairs, ratios[0], ratios[pairs-1])
		})
	}
}

// testKafkaRate returns how long healthy messages take.
func testKafkaRate(t *testing.T, healthy int, trouble func(i int) []message.Message) time.Duration {
	t.Helper()
	const failing, keys = 600, 50
	k, g := newKafka(t, 4), newPgx(t)
	var tried distinct
	in := inbox.New(g.engine, inbox.Config{
		Consumer: "billing", Order: inbox.InOrder, Observer: &events{},
		Policy: &retry.Policy{Attempts: math.MaxInt, Base: time.Second, Cap: 5 * time.Minute, Total: -1}, // the default, for ever
	})
	var attempts atomic.Int64
	k.publishTo(t, 2, eventsOf("warm", 1, 10))
	stop := start(t, func(ctx context.Context) error {
		return kafkabroker.Consume(ctx, in, func(ctx context.Context, tx pgxTx, m message.Message) error {
			if isSick(&m) {
				tried.add(m.ID)
				attempts.Add(1)
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, k.config())
	})
	defer stop()
	g.waitFor(t, 10)
	if trouble != nil {
		for p := range 2 {
			var list []message.Message
			for i := p; i < failing; i += 2 {
				list = append(list, trouble(i)...)
			}
			k.publishTo(t, int32(p), list)
		}
		until(t, "the trouble", func() bool {
			return tried.count() == failing || g.count(t, "select count(*) from once_inbox_parked") == failing
		})
	}
	lists := make([][]message.Message, 2)
	for i := range healthy {
		key := fmt.Sprint("key ", i%keys)
		lists[i%2] = append(lists[i%2], eventsOf(key, int64(i/keys+1), int64(i/keys+1))...)
	}
	began, before := time.Now(), attempts.Load()
	for p, list := range lists {
		k.publishTo(t, int32(2+p), list)
	}
	g.waitFor(t, 10+healthy)
	took := time.Since(began)
	t.Logf("%d healthy messages, %d attempts of others, %v", healthy, attempts.Load()-before, took)
	g.check(t, 10+healthy, 1+keys)
	return took
}
