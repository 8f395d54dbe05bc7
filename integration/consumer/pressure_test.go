package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// concurrencyLog is a handler of logs that knows the least and the most transactions that a consumer was allowed to run at once.
type concurrencyLog struct {
	slog.Handler // ignores all

	mu    sync.Mutex
	least int64
	most  int64
}

func (l *concurrencyLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.least, l.most = math.MaxInt64, 0
}

func (l *concurrencyLog) seen() (least, most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.least, l.most
}

// Enabled implements slog.Handler.
func (*concurrencyLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *concurrencyLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if n := a.Value; a.Key == "concurrency" {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.least, l.most = min(l.least, n.Int64()), max(l.most, n.Int64())
		}
		return true
	})
	return nil
}

// TestConcurrencyFollowsThePool: others take almost all connections of the pool, and the consumer runs few transactions at once.
// When the pool is free again, it runs as many as before.
func TestConcurrencyFollowsThePool(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const most, conns = 8, 12
	const longest = 250 * time.Millisecond // that a transaction waits for a connection; a loaded machine makes some wait, too
	n, g := newJetStream(t), newPgx(t)
	s, pool := harness.OpenPgx(t, g.Database, func(c *pgxpool.Config) { c.MaxConns = conns })
	take := func(count int) (release func()) {
		var taken []*pgxpool.Conn
		for range count {
			c, err := pool.Acquire(t.Context())
			must(t, err)
			taken = append(taken, c)
		}
		return func() {
			for _, c := range taken {
				c.Release()
			}
		}
	}
	take(conns)() // so that no message waits until a connection is made

	in := fixtureOn(g.Database, s).inbox(&events{})
	allowed := &concurrencyLog{Handler: quiet.Handler()}
	allowed.reset()
	var running, sent atomic.Int64
	var slow atomic.Bool
	gate := make(chan struct{})
	start(t, func(ctx context.Context) error {
		c := natsConfig
		c.SlowAcquire = longest
		c.Concurrency, c.Batch, c.Log = most, 1, slog.New(allowed)
		return natsbroker.Consume(ctx, n.js, in, func(ctx context.Context, tx pgxTx, m message.Message) error {
			switch {
			case m.Type == "gate":
				running.Add(1)
				<-gate
			case slow.Load(): // it keeps its connection for longer than others are willing to wait
				<-time.After(longest * 5 / 4)
			}
			return g.apply(ctx, tx, m)
		}, c)
	})
	send := func(count int, kind string) {
		list := batch(count, 1, 1)
		for i := range list {
			id := fmt.Sprint(sent.Add(1))
			list[i].ID, list[i].Key, list[i].Type = id, id, kind
		}
		n.publish(t, list)
	}
	send(most, "gate")
	until(t, "the first messages, all at once", func() bool { return running.Load() == most })
	close(gate)
	g.waitFor(t, most)

	slow.Store(true)
	release := take(conns - 1)
	until(t, "few transactions at once", func() bool {
		if g.count(t, "select count(*) from applied") >= int(sent.Load()) {
			send(most, "message")
		}
		least, _ := allowed.seen()
		return least <= 2
	})
	slow.Store(false)
	release()
	allowed.reset()
	until(t, "as many transactions at once as before", func() bool {
		if g.count(t, "select count(*) from applied") >= int(sent.Load()) {
			send(2*most, "message")
		}
		_, now := allowed.seen()
		return now == most
	})
	g.waitFor(t, int(sent.Load()))
	n.waitDone(t)
	g.check(t, int(sent.Load()), int(sent.Load()))
}
