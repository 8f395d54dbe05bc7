package consumer

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
)

// plan is what a consumer process does.
type plan struct {
	Database harness.Database
	NATS     string // the URL of a server
	Kafka    string // the address of a broker
	Redis    string // the address of a server
	AMQP     string // the URL of a RabbitMQ
	Fails    bool   // handlers fail now and then
	KillAt   int64  // it kills itself at this named point; 0: never
	StopIn   string // it stops itself (SIGSTOP) once: see inHandler and afterCommit
	Last     bool   // Kafka: it is not taken for dead when the machine is slow, and so it can commit offsets
}

// CarryOut implements harness.Plan: it consumes until it is drained.
func (p plan) CarryOut(opening context.Context) error {
	ctx := harness.UntilDrained(opening)
	return p.Database.Use(opening,
		func(s harness.Store[pgx.Tx]) error { return feed(ctx, fixtureOn(p.Database, s), p) },
		func(s harness.Store[*sql.Tx]) error { return feed(ctx, fixtureOn(p.Database, s), p) })
}

// Where a consumer stops itself: in a transaction that has applied a message, or between the commit and the acknowledgement.
const (
	inHandler   = "handler"
	afterCommit = "commit"
)

// points kills the process at one of its named points, or stops it.
type points struct {
	at   int64
	seen atomic.Int64

	stopIn  string
	stopped sync.Once
}

// stop stops the process, if this is where its plan says so. Another process knows of it from the standard output.
func (p *points) stop(where string) {
	if where == p.stopIn {
		p.stopped.Do(func() {
			fmt.Println("stop")
			if err := harness.Stop(); err != nil {
				panic(err)
			}
		})
	}
}

func (p *points) pass() {
	if p.seen.Add(1) == p.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// Observe implements inbox.Observer: what is applied has committed, and was not yet acknowledged.
func (p *points) Observe(_ context.Context, e inbox.Event) {
	if e.Type == inbox.EventApplied {
		p.pass()
		p.stop(afterCommit)
	}
}

// OnBrokerWrite implements kgo.HookBrokerWrite: the commit of offsets was sent.
func (p *points) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == offsetCommit {
		p.pass()
	}
}

const offsetCommit = 8

// basicAck is the number of the method in a frame of AMQP.
const basicAck = "\x00\x3c\x00\x50"

// dialer makes connections on which an acknowledgement is a named point, before it is sent and after that.
type dialer struct {
	points *points
	ack    string // what an acknowledgement has, and nothing else that is sent; a client compares its connections, so it is no slice
}

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return ackConn{conn, d}, nil
}

func (d dialer) dialRedis(_ context.Context, network, address string) (net.Conn, error) {
	return d.Dial(network, address)
}

type ackConn struct {
	net.Conn

	dialer dialer
}

func (c ackConn) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte(c.dialer.ack)) {
		return c.Conn.Write(b)
	}
	c.dialer.points.pass()
	n, err := c.Conn.Write(b)
	c.dialer.points.pass()
	return n, err
}

var errNow = errors.New("now and then a handler fails")

// feed is a consumer with named points: in the transaction before and after the handler has written, after its commit, and
// around the acknowledgement.
func feed[TX any](ctx context.Context, g *fixture[TX], p plan) error {
	at := &points{at: p.KillAt, stopIn: p.StopIn}
	if p.StopIn != "" {
		g.idle = 2 * time.Second // other workers of a process that stops may have transactions, too
	}
	in := g.inbox(at)
	handle := func(ctx context.Context, tx TX, m message.Message) error {
		at.pass()
		defer at.pass()
		if err := g.apply(ctx, tx, m); err != nil {
			return err
		}
		at.stop(inHandler)
		if p.Fails && rand.IntN(20) == 0 {
			return errNow
		}
		return nil
	}
	if p.Kafka != "" {
		client := kafkaOptions(p.Kafka, time.Second) // a process that is dead is missed soon
		if p.Last {
			// A member that dies between its join and its assignment is missed only when the longest time for a rebalance of all
			// members is over.
			client = append(kafkaOptions(p.Kafka, time.Minute), kgo.RebalanceTimeout(2*time.Second))
		}
		return kafkabroker.Consume(ctx, in, handle, kafkabroker.ConsumerConfig{
			Client: append(client, kgo.WithHooks(at)), Topics: []string{topic}, Concurrency: 3, Batch: 8, Prefetch: 40, Log: quiet,
		})
	}
	if p.Redis != "" {
		options := redisOptions(p.Redis)
		options.Dialer = dialer{at, "xack"}.dialRedis
		rdb := redis.NewClient(options)
		defer func() { _ = rdb.Close() }()
		return redisbroker.Consume(ctx, rdb, in, handle, redisbroker.ConsumerConfig{
			Streams: []string{topic}, MinIdle: time.Second, Concurrency: 3, Batch: 8, Prefetch: 40, Log: quiet,
		})
	}
	if p.AMQP != "" {
		conn, err := amqpbroker.Dial(p.AMQP, amqp.Config{
			Heartbeat: time.Second, // a process that is stopped is missed soon
			Dial:      dialer{at, basicAck}.Dial,
		})
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return amqpbroker.Consume(ctx, conn, in, handle, amqpbroker.ConsumerConfig{Queue: topic, Concurrency: 3, Batch: 8, Prefetch: 40, Log: quiet})
	}
	nc, err := nats.Connect(p.NATS, append(natsOptions(), nats.SetCustomDialer(dialer{at, "+ACK"}))...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return natsbroker.Consume(ctx, js, in, handle, natsbroker.ConsumerConfig{
		Subjects: []string{topic}, AckWait: time.Second, Concurrency: 3, Batch: 8, Prefetch: 40, Log: quiet,
	})
}

func natsOptions() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

func redisOptions(address string) *redis.Options {
	return &redis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1}
}

// kafkaOptions are those of a client that is missed when it has said nothing for as long as session.
func kafkaOptions(address string, session time.Duration) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(address), kgo.SessionTimeout(session), kgo.RebalanceTimeout(2 * session), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
}
