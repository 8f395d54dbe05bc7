package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// redisServer is a server that keeps what it has confirmed when it is killed.
type redisServer struct {
	*testenv.Redis

	rdb *redis.Client
}

func newRedis(t *testing.T, valkey bool) *redisServer {
	t.Helper()
	testenv.Need(t, map[bool]string{false: "redis-server", true: "valkey-server"}[valkey])
	redis.SetLogger(silent{}) // it tells standard error of each server that is down
	server, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Lines: "appendonly yes\nappendfsync always\n", Valkey: valkey})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	r := &redisServer{Redis: server, rdb: redis.NewClient(redisOptions(server.Addr()))}
	t.Cleanup(func() { _ = r.rdb.Close() })
	return r
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// into implements broker.
func (r *redisServer) into(p *plan) { p.Redis = r.Addr() }

// points implements broker.
func (r *redisServer) points() []int64 { return []int64{1, 2, 5, 8, 9, 12, 13, 14} }

// publish implements broker.
func (r *redisServer) publish(t *testing.T, list []message.Message) {
	t.Helper()
	publish(t, redisbroker.Publisher(r.rdb, redisbroker.PublisherConfig{}), list)
}

// repeat implements broker.
func (r *redisServer) repeat(t *testing.T, list []message.Message) {
	t.Helper()
	r.publish(t, list)
}

// disturb implements broker: the server is killed.
func (r *redisServer) disturb() error { return errors.Join(r.Kill(), r.Restart(context.Background())) }

// group is how the group of a stream stands.
func (r *redisServer) group(t *testing.T, stream string) (g redis.XInfoGroup, is bool) {
	t.Helper()
	groups, err := r.rdb.XInfoGroups(t.Context(), stream).Result()
	at := slices.IndexFunc(groups, func(g redis.XInfoGroup) bool { return g.Name == "billing" })
	if err != nil || at < 0 {
		return g, false
	}
	return groups[at], true
}

// waitDone waits until all messages are acknowledged.
func (r *redisServer) waitDone(t *testing.T) {
	t.Helper()
	r.waitDoneWith(t, topic)
}

func (r *redisServer) waitDoneWith(t *testing.T, stream string) {
	t.Helper()
	until(t, "the acknowledgements", func() bool {
		g, is := r.group(t, stream)
		return is && g.Lag == 0 && g.Pending == 0
	})
}

var redisConfig = redisbroker.ConsumerConfig{Streams: []string{topic}, MinIdle: time.Minute, Log: quiet}

// TestRedisMessagesAreAppliedOnce: duplicates, messages that come in the wrong order, and handlers that fail: each message is applied once, in the order
// of its key, and acknowledged. What cannot be decoded is a dead letter.
func TestRedisMessagesAreAppliedOnce(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) { t.Parallel(); testRedis(t, false) })
	t.Run("Valkey", func(t *testing.T) { t.Parallel(); testRedis(t, true) })
}

func testRedis(t *testing.T, valkey bool) {
	r, g := newRedis(t, valkey), newSQLite(t)
	list := batch(5, 1, 20)
	swapped := slices.Clone(list)
	for i := 0; i+7 < len(swapped); i += 9 {
		swapped[i], swapped[i+7] = swapped[i+7], swapped[i]
	}
	for i, m := range swapped {
		m.Headers = map[string]string{"data": "x"} // which is no name of ours
		r.publish(t, []message.Message{m})
		if i%3 == 0 {
			r.publish(t, []message.Message{m})
		}
	}
	must(t, r.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: topic, Values: []string{"this", "is no event"}}).Err())
	e := &events{}
	in := g.inbox(e)
	var failed sync.Map
	stop := start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, in, func(ctx context.Context, tx sqlTx, m message.Message) error {
			if m.Headers["data"] != "x" || m.Delivery > 1 {
				t.Errorf("%+v", m)
			}
			if _, before := failed.LoadOrStore(m.ID, true); !before && m.Seq%4 == 0 {
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, redisConfig)
	})
	g.waitFor(t, len(list))
	r.waitDone(t)
	stop()
	if dead := g.count(t, `select count(*) from once_deadletter where class = 'malformed' and source = 'redis' and event_id like 'refunds/%-%' and cast(payload as text) = '{"this":"is no event"}'`); dead != 1 {
		t.Errorf("%d dead letters", dead)
	}
	g.exec(t, "delete from once_deadletter where class = 'malformed'")
	g.check(t, len(list), 5)
	if e.count(inbox.EventDuplicate) == 0 || e.count(inbox.EventParked) == 0 || e.count(inbox.EventFailed) == 0 {
		t.Error("the run has not met what it is for")
	}
	if group, _ := r.group(t, topic); group.Consumers != 0 {
		t.Errorf("%d consumers are left in the group", group.Consumers)
	}
}

// TestRedisPoison: a message that is given up is a dead letter and acknowledged, and those of other keys are applied. A consumer that dies with each delivery is
// counted by the server.
func TestRedisPoison(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	ctx := t.Context()
	must(t, r.rdb.XGroupCreateMkStream(ctx, topic, "billing", "0").Err())
	r.publish(t, eventsOf("sick", 1, 3))
	r.publish(t, batch(2, 1, 5))
	for _, dead := range []string{"first", "second", "third"} { // consumers that have died with it
		id := "0-0"
		if dead == "first" {
			must(t, r.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "billing", Consumer: dead, Streams: []string{topic, ">"}, Count: 1}).Err())
			continue
		}
		must(t, r.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: topic, Group: "billing", Consumer: dead, Start: id, Count: 1}).Err())
	}
	in := inbox.New(g.engine, inbox.Config{
		Consumer: "billing", Order: inbox.InOrder, Observer: &events{},
		Policy: &retry.Policy{Attempts: 3, Base: 10 * time.Millisecond, Cap: 20 * time.Millisecond, Total: -1},
	})
	var delivery atomic.Int64
	cfg := redisConfig
	cfg.MinIdle = 300 * time.Millisecond
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, in, func(ctx context.Context, tx sqlTx, m message.Message) error {
			if m.Key == "sick" && m.Seq == 1 {
				delivery.Store(int64(m.Delivery))
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	g.waitFor(t, 10)
	r.waitDone(t)
	if n := delivery.Load(); n < 4 {
		t.Errorf("delivery %d of a message that three consumers have had", n)
	}
	if dead := g.count(t, "select count(*) from once_deadletter where event_id = 'sick/1'"); dead != 1 {
		t.Errorf("%d dead letters", dead)
	}
	if parked := g.count(t, "select count(*) from once_inbox_parked"); parked != 2 {
		t.Errorf("%d messages wait for the dead letter", parked)
	}
	until(t, "the end of consumers that are dead", func() bool { group, _ := r.group(t, topic); return group.Consumers == 1 })
}

// TestRedisHandlerIsSlow: while a handler runs, the server is told so, and so it is of messages that wait for a worker: no other process claims them. They are
// acknowledged after the commit.
func TestRedisHandlerIsSlow(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	r.publish(t, batch(1, 1, 2))
	enough := make(chan struct{})
	begun := make(chan struct{}, 10)
	cfg := redisConfig
	cfg.MinIdle, cfg.Concurrency, cfg.Batch = time.Second, 1, 1
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, g.inbox(&events{}), func(ctx context.Context, tx sqlTx, m message.Message) error {
			begun <- struct{}{}
			<-enough
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	receive(t, "the handler", begun)
	// After a sign of life the idle time of a message begins again, and its number of deliveries stays the same. If the machine was busy for longer than MinIdle, the consumer claims its own messages, and this counts as a delivery.
	signs, before := map[string]int64{}, map[string]redis.XPendingExt{}
	until(t, "signs of life of both messages", func() bool {
		pending, err := r.rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: topic, Group: "billing", Start: "-", End: "+", Count: 10}).Result()
		must(t, err)
		if len(pending) != 2 {
			t.Fatalf("%d messages of 2 are pending before the handler has returned", len(pending))
		}
		for _, p := range pending {
			was, seen := before[p.ID]
			if seen && p.Idle < was.Idle && p.RetryCount == was.RetryCount {
				signs[p.ID]++
			}
			if seen && p.Consumer != was.Consumer || p.RetryCount > signs[p.ID]+10 {
				t.Fatalf("%+v after %d signs of life, owned by %s before", p, signs[p.ID], was.Consumer)
			}
			before[p.ID] = p
		}
		return min(signs[pending[0].ID], signs[pending[1].ID]) >= 6
	})
	close(enough)
	g.waitFor(t, 2)
	r.waitDone(t)
	g.check(t, 2, 1)
}

// TestRedisDrains: when its context ends, a consumer waits for the handler that runs, acknowledges its message, and gives back the others: another process has
// them at once, and not after MinIdle.
func TestRedisDrains(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	r.publish(t, batch(1, 1, 3))
	begun, free := make(chan string, 3), make(chan struct{})
	cfg := redisConfig
	cfg.Concurrency, cfg.Batch, cfg.MinIdle = 1, 1, time.Hour
	arrived := make(chan string, 100)
	cfg.Decode = func(stream string, m redis.XMessage) (message.Message, error) {
		arrived <- m.ID
		return redisbroker.Decode(stream, m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- redisbroker.Consume(ctx, r.rdb, g.inbox(&events{}), func(ctx context.Context, tx sqlTx, m message.Message) error {
			begun <- m.ID
			<-free
			return g.apply(ctx, tx, m)
		}, cfg)
	}()
	receive(t, "the first message", begun)
	for range 3 {
		receive(t, "all messages", arrived)
	}
	cancel()
	close(free)
	must(t, receive(t, "the end", ended))
	if group, _ := r.group(t, topic); group.Pending != 2 || group.Consumers != 1 {
		t.Errorf("%+v, want two messages pending, and their consumer", group)
	}
	g.check(t, 1, 1)
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, g.inbox(&events{}), g.apply, cfg)
	})
	g.waitFor(t, 3)
	g.check(t, 3, 1)
}

// TestRedisServerIsKilled: the server dies while messages are applied, and so do connections to it.
func TestRedisServerIsKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	r, g := newRedis(t, false), newPgx(t)
	proxy, err := faultnet.Listen(r.Addr())
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	list := batch(10, 1, 60)
	r.publish(t, list)
	rdb := redis.NewClient(redisOptions(proxy.Addr()))
	t.Cleanup(func() { _ = rdb.Close() }) // after the consumer
	cfg := redisConfig
	cfg.MinIdle, cfg.Batch, cfg.Prefetch = time.Second, 8, 24
	var log lines
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	var handled atomic.Int64
	resumed := make(chan struct{}, len(list)*100)
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, rdb, g.inbox(&events{}), func(ctx context.Context, tx pgxTx, m message.Message) error {
			if handled.Add(1)%20 == 0 {
				resumed <- struct{}{}
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	kills, cuts := 0, 0
	for range 4 {
		receive(t, "messages", resumed)
		kills++
		must(t, r.Kill())
		must(t, r.Restart(t.Context()))
		receive(t, "messages", resumed)
		cuts += proxy.CutAll()
	}
	g.waitFor(t, len(list))
	r.waitDone(t)
	g.check(t, len(list), 10)
	log.untilOver(t, "a stream cannot be read")
	testenv.Count("messages", len(list))
	testenv.Reportf(t, "%d messages, redis-server killed %d times, %d connections cut, %d calls of the handler", len(list), kills, cuts, handled.Load())
}

// TestRedisBacklog: a backlog is applied by two consumers, each message once, and trimmed behind them, as they ask for. With ONCE_TORTURE=long it has 100,000 messages.
func TestRedisBacklog(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	keys, each := 50, int64(40)
	if os.Getenv("ONCE_TORTURE") == "long" {
		each = 2000
	}
	r, g := newRedis(t, false), newPgx(t)
	r.publish(t, batch(keys, 1, each))
	n := keys * int(each)
	cfg := redisConfig
	cfg.Keep, cfg.MinIdle = time.Millisecond, time.Second
	began := time.Now()
	for range 2 {
		start(t, func(ctx context.Context) error {
			return redisbroker.Consume(ctx, r.rdb, g.inbox(&events{}), g.apply, cfg)
		})
	}
	g.waitFor(t, n)
	took := time.Since(began)
	r.waitDone(t)
	g.check(t, n, keys)
	until(t, "the end of what is acknowledged", func() bool { return r.rdb.XLen(t.Context(), topic).Val() <= 100 })
	testenv.Reportf(t, "%d messages in %v", n, took.Round(time.Millisecond))
}

// TestRedisKeep: Consume deletes what every group has acknowledged, and nothing else: neither what another group has not read, nor what is pending, nor what is young.
func TestRedisKeep(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	ctx := t.Context()
	const n = 500
	r.publish(t, eventsOf("k", 1, n))
	first, err := r.rdb.XRangeN(ctx, topic, "-", "+", 1).Result()
	must(t, err)
	must(t, r.rdb.XGroupCreate(ctx, topic, "slow", "0").Err())
	cfg := redisConfig
	cfg.Keep, cfg.MinIdle = time.Millisecond, time.Second
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, g.inbox(&events{}), g.apply, cfg)
	})
	g.waitFor(t, n)
	r.waitDone(t)
	looks := func() { // until the consumer has looked twice
		t.Helper()
		for range 2 {
			must(t, r.rdb.ConfigResetStat(ctx).Err())
			until(t, "a look", func() bool {
				return strings.Contains(r.rdb.Info(ctx, "commandstats").Val(), "cmdstat_xtrim:")
			})
		}
	}
	looks()
	if left := r.rdb.XLen(ctx, topic).Val(); left != n {
		t.Errorf("%d messages of %d are left for a group that has read none", left, n)
	}
	read, err := r.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "slow", Consumer: "c", Streams: []string{topic, ">"}, Count: n, Block: -1}).Result()
	must(t, err)
	var ids []string
	for _, m := range read[0].Messages {
		ids = append(ids, m.ID)
	}
	must(t, r.rdb.XAck(ctx, topic, "slow", ids[1:]...).Err())
	looks()
	if got, err := r.rdb.XRange(ctx, topic, first[0].ID, first[0].ID).Result(); err != nil || len(got) != 1 {
		t.Errorf("a message that is pending is gone: %v, %v", got, err)
	}
	must(t, r.rdb.XAck(ctx, topic, "slow", ids[0]).Err())
	until(t, "the end of what is acknowledged", func() bool { return r.rdb.XLen(ctx, topic).Val() <= 100 })
}

// TestRedisYoung: what is not older than Keep stays.
func TestRedisYoung(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	const n = 300
	r.publish(t, eventsOf("k", 1, n))
	cfg := redisConfig
	cfg.Keep, cfg.MinIdle = time.Hour, 200*time.Millisecond
	stop := start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, g.inbox(&events{}), g.apply, cfg)
	})
	g.waitFor(t, n)
	r.waitDone(t)
	stop() // which trims as well
	if left := r.rdb.XLen(t.Context(), topic).Val(); left != n {
		t.Errorf("%d messages of %d are left", left, n)
	}
}

// TestRedisTrimmed: messages that were trimmed before they were applied are told: those that a consumer had by the log, and those that no consumer had by CheckConsumer.
func TestRedisTrimmed(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	ctx := t.Context()
	r.publish(t, eventsOf("k", 1, 10))
	must(t, r.rdb.XGroupCreate(ctx, topic, "billing", "0").Err())
	read := func(n int64) {
		t.Helper()
		must(t, r.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "billing", Consumer: "dead", Streams: []string{topic, ">"}, Count: n, Block: -1}).Err())
	}
	read(3)
	check := func(want string) {
		t.Helper()
		findings, err := redisbroker.CheckConsumer(ctx, r.rdb, topic, "billing")
		if err != nil || (want == "") != (len(findings) == 0) || !strings.Contains(strings.Join(findings, "\n"), want) {
			t.Errorf("%q, %v, want %q", findings, err, want)
		}
	}
	check("")
	must(t, r.rdb.XTrimMaxLen(ctx, topic, 2).Err())
	check("has missed 5 messages")
	read(2)
	check("has missed 5 messages")
	if _, err := redisbroker.CheckConsumer(ctx, r.rdb, topic, "nobody"); err == nil {
		t.Error("a group that is missing is not told")
	}
	if _, err := redisbroker.CheckConsumer(ctx, r.rdb, "nowhere", "billing"); err == nil {
		t.Error("a stream that is missing is not told")
	}
	log := &lines{}
	cfg := redisConfig
	cfg.MinIdle, cfg.Log = 100*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, g.patient(&events{}, inbox.AnyOrder), g.apply, cfg)
	})
	g.waitFor(t, 2) // the last two
	until(t, "the log", func() bool {
		return log.contains("deleted or trimmed from a stream before they were acknowledged") && log.contains("messages=3")
	})
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// untilOver waits until the last line about an outage is followed by a line that says that the outage is over. All messages may be applied before the last outage.
func (l *lines) untilOver(t *testing.T, outage string) {
	t.Helper()
	until(t, "a line that says that the outage is over", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		text := l.text.String()
		at := strings.LastIndex(text, outage)
		return at < 0 || strings.Contains(text[at:], " again\"")
	})
}

func (l *lines) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

// TestRedisGroupIsLost: the stream or the group is deleted while a consumer runs, which begins again at the start. The inbox applies each message once.
func TestRedisGroupIsLost(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	ctx := t.Context()
	e := &events{}
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, g.inbox(e), g.apply, redisConfig)
	})
	r.publish(t, eventsOf("k", 1, 5))
	g.waitFor(t, 5)
	must(t, r.rdb.XGroupDestroy(ctx, topic, "billing").Err())
	until(t, "all messages once more", func() bool { return e.count(inbox.EventDuplicate) >= 5 })
	must(t, r.rdb.Del(ctx, topic).Err())
	r.publish(t, eventsOf("k", 6, 10))
	g.waitFor(t, 10)
	r.waitDone(t)
	g.check(t, 10, 1)
}

// TestRedisSickStream: a stream that cannot be read, and one whose messages fail, more of them than a consumer holds, delay no message of a third one. When the handler does not fail any more,
// all are applied.
func TestRedisSickStream(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const failing, healthy = 300, 100
	r, g := newRedis(t, false), newPgx(t)
	must(t, r.rdb.Set(t.Context(), "cache", "no stream", 0).Err())
	var list []message.Message
	for i := range failing {
		list = append(list, eventsOf(fmt.Sprint("sick ", i), 1, 1)...)
	}
	r.publish(t, list)
	cfg := redisConfig
	cfg.Streams, cfg.Prefetch, cfg.MinIdle = []string{topic, "healthy", "cache"}, 64, time.Second
	var tried distinct
	var healed atomic.Bool
	in := inbox.New(g.engine, inbox.Config{
		Consumer: "billing", Order: inbox.InOrder, Observer: &events{},
		Policy: &retry.Policy{Attempts: math.MaxInt, Base: 200 * time.Millisecond, Cap: time.Second, Total: -1},
	})
	start(t, func(ctx context.Context) error {
		return redisbroker.Consume(ctx, r.rdb, in, func(ctx context.Context, tx pgxTx, m message.Message) error {
			if isSick(&m) && !healed.Load() {
				tried.add(m.ID)
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	until(t, "an attempt of each", func() bool { return tried.count() == failing })
	well := batch(4, 1, healthy/4)
	for i := range well {
		well[i].Topic = "healthy"
	}
	r.publish(t, well)
	g.waitFor(t, healthy)
	r.waitDoneWith(t, "healthy")
	g.check(t, healthy, 4)
	healed.Store(true)
	g.waitFor(t, healthy+failing)
	r.waitDone(t)
	g.check(t, healthy+failing, 4+failing)
	must(t, r.rdb.Del(t.Context(), "cache").Err())
	m := eventsOf("cache", 1, 1)
	m[0].Topic = "cache"
	r.publish(t, m)
	g.waitFor(t, healthy+failing+1)
}

// TestRedisRefusals: what Consume says of a configuration that cannot work, of a user that is refused, and of a client that was closed.
func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	r, g := newRedis(t, false), newSQLite(t)
	refused := redisOptions(r.Addr())
	refused.Username, refused.Password = "nobody", "wrong"
	closed := redis.NewClient(redisOptions(r.Addr()))
	must(t, closed.Close())
	for name, c := range map[string]struct {
		rdb *redis.Client
		cfg redisbroker.ConsumerConfig
	}{
		"nothing to read":  {r.rdb, redisbroker.ConsumerConfig{}},
		"no name":          {r.rdb, redisbroker.ConsumerConfig{Streams: []string{""}}},
		"negative":         {r.rdb, redisbroker.ConsumerConfig{Streams: []string{topic}, MinIdle: -1}},
		"negative batch":   {r.rdb, redisbroker.ConsumerConfig{Streams: []string{topic}, Batch: -1}},
		"few connections":  {redis.NewClient(&redis.Options{PoolSize: 2}), redisConfig},
		"another password": {redis.NewClient(refused), redisConfig},
		"a closed client":  {closed, redisConfig},
	} {
		c.cfg.Log = quiet
		err := redisbroker.Consume(t.Context(), c.rdb, g.inbox(&events{}), g.apply, c.cfg)
		if err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
