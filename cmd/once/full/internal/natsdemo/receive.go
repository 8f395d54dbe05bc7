package natsdemo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/pflag"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/inbox"
)

// Receiver is once demo receive.
var Receiver = cli.Entry{
	Hidden: true, Name: "demo receive", Brief: "internal: the receiver of events in \"once demo events\"",
	Help: `Receives the events of the payments service and books each event through an inbox, until the
command is interrupted. For each event the command writes the outcome to standard error, as one line
of JSON. "once demo events" starts this command.`,
	Make: func() cli.Runner { return new(receive) },
}

type receive struct {
	db, from string
	cfg      payments.ReceiverConfig
}

const (
	reconnectWait = 20 * time.Millisecond // short, because the demo kills the server again and again
	ackWait       = time.Second           // after this time, the messages of a killed receiver are delivered to the next one
)

func (c *receive) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	cli.OnCommandLine(fs, "db")
	fs.StringVar(&c.from, "from", "", "`URL` of the NATS server, required")
	fs.StringVar(&c.cfg.Tenant, "tenant", "demo", "`NAME` of the tenant")
	fs.Int64Var(&c.cfg.Defect, "defect", 0, "the `AMOUNT` of the refunds that the receiver cannot book (default: the receiver can book every refund)")
}

func (c *receive) Run(ctx context.Context, m *cli.Env, _ []string) (err error) {
	if c.from == "" {
		return cli.Usage("--from is missing", "once demo events, which starts this command")
	}
	src, err := cli.ParseSource(c.db)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(c.from, nats.Name("once demo receive"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(0, 0))
	if err != nil {
		return fmt.Errorf("--from: %w. Try: nats://HOST:4222", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	db, err := payments.OpenEvents(ctx, c.db)
	if err != nil {
		return src.Failed("open", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c.cfg.Prefix = killstorm.ReceiverPrefix
	c.cfg.Log = slog.New(slog.NewJSONHandler(m.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: correlated}))
	fmt.Fprintf(m.Stdout, "database  %s\nreceives  from %s\n", src.Name, c.from)
	slog.SetDefault(c.cfg.Log) // the engine logs its warnings there
	return db.Receive(ctx, payments.Consumer{PGX: consumer[pgx.Tx](js, c.cfg.Log), SQL: consumer[*sql.Tx](js, c.cfg.Log)}, c.cfg)
}

// consumer applies the messages of NATS.
func consumer[TX any](js jetstream.JetStream, log *slog.Logger) func(context.Context, *inbox.Inbox[TX], inbox.Handler[TX], []string) error {
	return func(ctx context.Context, in *inbox.Inbox[TX], fn inbox.Handler[TX], subjects []string) error {
		return natsbroker.Consume(ctx, js, in, fn, natsbroker.ConsumerConfig{Subjects: subjects, AckWait: ackWait, Log: log})
	}
}

// correlated logs the trace of a message as correlation_id. This trace is the trace of the request that caused the message, unless the client has
// sent its own correlation id.
func correlated(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "trace_id" {
		a.Key = "correlation_id"
	}
	return a
}
