// Package relay is the command once relay.
package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/cmd/once/internal/telemetry"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Noun is once relay.
var Noun = cli.Alone(entry, cli.GroupRun)

var entry = cli.Entry{
	Name: "relay", Brief: "deliver the messages of an outbox to a broker or a service",
	Help: `Delivers the messages of an outbox at least once, and the messages of each key in their order, until the command is
interrupted (SIGINT or SIGTERM). After the interruption, the relay waits for the deliveries that it has begun, and ends
with the exit code 0. A service can also run a relay in its own process, and many relays can run at the same time: each
relay delivers the messages of some of the keys. If a relay dies, other relays take over its keys.

The destinations of --to:

  https://HOST/PATH            a service; the relay sends each message as a POST, and replaces {topic} in the
                               URL by the topic of the message
  nats://HOST:4222             NATS JetStream; the topic of a message is the subject
  redis://HOST:6379            a stream of Redis or Valkey; the topic of a message is the name of the stream.
                               With TLS and a password: rediss://USER:PASSWORD@HOST:6379
  kafka://HOST:9092,HOST:9092  Kafka; the record has the topic and the key of the message. With TLS and a
                               password: kafka://USER:PASSWORD@HOST:9093?tls=true&sasl=scram-sha-512
                               (or scram-sha-256, or plain; ca=FILE trusts the certificates in FILE)
  amqp://HOST:5672/VHOST       RabbitMQ; the topic of a message is the name of a queue, or, with
                               ?exchange=NAME, the routing key; amqps:// for TLS

The released binaries and the container image (the build of cmd/once/full/once) support NATS, Kafka and RabbitMQ. The
small build in cmd/once does not support NATS, Kafka and RabbitMQ.

A message that the relay gives up becomes a dead letter ("once deadletter list"), if the database has the tables for
dead letters. If you need a destination or a setting that this command does not have, run outbox.Relay in your own
program. The relay logs failures to standard error. If the destination or the database cannot be reached, the relay
waits and tries again, also at the start. The command ends with an error if the database refuses the password or has no
outbox, or if a NATS server refuses the password twice. "once outbox list" prints the messages that wait. "once doctor
--to" checks whether the destination has the settings that reliable delivery needs.`,
	Make: func() cli.Runner { return new(relay) },
}

// gaugesEvery is how often the gauges read the database.
const gaugesEvery = 5 * time.Second

type relay struct {
	db, to  string
	cfg     outbox.RelayConfig
	keep    time.Duration
	dir     string
	key     cli.KeyFile
	metrics telemetry.Metrics
}

func (c *relay) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.to, "to", "", "`URL` of the destination (required; default: ONCE_TO, or the value of \"to\" in once.yaml)")
	cli.FromEnv(fs, "to", "ONCE_TO")
	fs.IntVar(&c.cfg.Concurrency, "concurrency", 0, "deliver at most `N` batches of a topic at the same time (default 4)")
	fs.IntVar(&c.cfg.Batch, "batch", 0, "put at most `N` messages into a batch (default 1000)")
	fs.Func("rate", "`TOPIC=N`: deliver at most N messages of this topic a second; can be repeated", func(s string) error {
		return c.topic(s, func(t *outbox.TopicConfig, n string) (err error) {
			t.Rate, err = strconv.ParseFloat(n, 64)
			if err != nil || !(t.Rate > 0) { // NaN is refused too
				return fmt.Errorf("%q is not a number of messages per second", n)
			}
			return nil
		})
	})
	fs.Func("topic-concurrency", "`TOPIC=N`: deliver at most N batches of this topic at the same time; can be repeated", func(s string) error {
		return c.topic(s, func(t *outbox.TopicConfig, n string) (err error) {
			t.Concurrency, err = strconv.Atoi(n)
			if err != nil || t.Concurrency < 1 {
				return fmt.Errorf("%q is not a number of batches", n)
			}
			return nil
		})
	})
	fs.DurationVar(&c.cfg.TTL, "ttl", 0, "if this process dies, other relays take over its keys after this `TIME` (default 10s)")
	fs.DurationVar(&c.keep, "keep", 0, "keep delivered messages for this `TIME` in once_outbox_sent (default: delete them)")
	fs.StringVar(&c.dir, "archive", "", "with --keep: write delivered messages to files in this `DIR` before they are deleted; only this relay may use DIR")
	c.metrics.Flags(fs, "")
	c.key.Flags(fs)
}

// topic sets a value from a flag of the form TOPIC=N.
func (c *relay) topic(s string, set func(t *outbox.TopicConfig, n string) error) error {
	// The last one, because the name of a topic may contain an equals sign.
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		return errors.New("the value must have the form TOPIC=N")
	}
	if c.cfg.Topics == nil {
		c.cfg.Topics = map[string]outbox.TopicConfig{}
	}
	t := c.cfg.Topics[s[:i]]
	if err := set(&t, s[i+1:]); err != nil {
		return err
	}
	c.cfg.Topics[s[:i]] = t
	return nil
}

func (c *relay) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	if c.cfg.Concurrency < 0 || c.cfg.Batch < 0 || c.cfg.TTL < 0 || c.keep < 0 {
		return cli.Usage("--concurrency, --batch, --ttl and --keep must not be negative", "once relay --help")
	}
	if c.dir != "" && c.keep == 0 {
		return cli.Usage("--archive needs --keep: without --keep, the relay deletes messages when they are delivered", "once relay --keep 168h --archive DIR")
	}
	encrypter, err := c.key.Encrypter()
	if err != nil {
		return err
	}
	to, err := destination.Open(c.to)
	if err != nil {
		return err
	}
	defer to.Close()
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	cfg := outbox.Config{RetainDelivered: c.keep, Encrypter: encrypter}
	if c.dir != "" {
		files, err := archive.Open(c.dir)
		if err != nil {
			return err
		}
		defer func() { _ = files.Close() }() // the archived rows are already on the disk
		cfg.Archive = files.Write
	}
	db, err := waitForRelay(ctx, log, c.db, cfg)
	if ctx.Err() != nil {
		log.InfoContext(ctx, "the relay has ended before it reached the database")
		return nil
	}
	if err != nil {
		return err
	}
	defer db.close()
	c.cfg.DeadLetters = !sqlguard.IsMissing(db.hasLetters(ctx))
	c.cfg.Observer = outbox.Log(log)
	gauges := []gauge.Source{db.box}
	if c.cfg.DeadLetters {
		gauges = append(gauges, db.letters)
	}
	if err := c.metrics.Listen(ctx); err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "database  %s\n", db.Name)
	if !c.metrics.Served() {
		gauges = nil // no metrics are served
	}
	watch, unwatch := telemetry.Watch(ctx, log, gaugesEvery, gauges)
	defer unwatch()
	counted, stop := c.metrics.Start(m, log, watch)
	defer stop()
	if counted != nil {
		c.cfg.Observer = outbox.Observers(outbox.Metrics(counted), c.cfg.Observer)
	}
	fmt.Fprintf(m.Stdout, "delivers  to %s\n", to.Name)
	err = db.Relay(to, c.cfg).Run(ctx)
	if outbox.IsClosed(err) {
		return fmt.Errorf("--to %s: %w", to.Name, err)
	}
	if err != nil {
		return refused(db.Database, "deliver from", err)
	}
	log.InfoContext(ctx, "the relay has ended, and has no delivery in flight")
	return nil
}

// refused adds advice to err.
func refused(db *cli.Database, doing string, err error) error {
	if lacks := db.Lacks(err, "outbox", outbox.Migrations.Capability); lacks != nil {
		return lacks
	}
	return db.Failed(doing, err)
}

// box is an outbox on any store.
type box interface {
	gauge.Source

	Backlog(ctx context.Context) (outbox.Backlog, error)
	Relay(p outbox.Publisher, cfg outbox.RelayConfig) *outbox.Relay
}

// boxOn returns the outbox of s.
func boxOn(s sqlplane.Database, cfg outbox.Config) (box, error) {
	switch s := s.(type) {
	case sqlplane.SQL[*sql.Tx]:
		return outbox.New(s, cfg), nil
	case sqlplane.SQL[pgx.Tx]:
		return outbox.New(s, cfg), nil
	}
	return nil, fmt.Errorf("the store %T has no transactions that an outbox can use", s)
}

// relayDB is the database of a relay.
type relayDB struct {
	*cli.Database
	box

	letters *deadletter.Letters
	close   func()
}

// hasLetters returns an error if a table of dead letters is missing.
func (db relayDB) hasLetters(ctx context.Context) error {
	_, err := db.ExecContext(ctx, "select 1 from once_deadletter, once_deadletter_attempt where 1 = 0")
	return err
}

// openRelay opens an outbox for a relay: on PostgreSQL with pgxstore, which needs fewer round trips.
func openRelay(ctx context.Context, dsn string, cfg outbox.Config) (relayDB, error) {
	db, err := cli.OpenDatabase(ctx, dsn, false)
	if err != nil {
		return relayDB{}, err
	}
	closeAll := func() { _ = db.Close() }
	var s sqlplane.Database
	if db.Dialect == sqlplane.PostgreSQL {
		pool, e := pgxpool.New(ctx, db.DSN)
		if err = e; e == nil {
			s, closeAll = pgxstore.New(pool, pgxstore.Config{}), func() { pool.Close(); _ = db.Close() }
		}
	} else {
		s, err = sqlstore.New(ctx, db.DB, sqlstore.Config{})
	}
	if err == nil {
		var b box
		if b, err = boxOn(s, cfg); err == nil {
			return relayDB{db, b, deadletter.New(s, deadletter.Config{}), closeAll}, nil
		}
	}
	err = db.Failed("read", err)
	closeAll()
	return relayDB{}, err
}
