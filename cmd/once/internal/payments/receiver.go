package payments

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// The consumers of the events. Each has an inbox of its own.
const (
	BookingsConsumer = "bookings" // books every event, the events of a charge in order
	LatestConsumer   = "latest"   // keeps the newest refund event of each charge
)

// Consumer applies the messages of a broker to an inbox until its context ends, like the packages of brokers: in either kind of transaction. It is an
// interface so that this package is built without a broker.
type Consumer struct {
	PGX consume[pgx.Tx]
	SQL consume[*sql.Tx]
}

// consume applies the messages of these subjects.
type consume[TX any] func(ctx context.Context, in *inbox.Inbox[TX], fn inbox.Handler[TX], subjects []string) error

// ReceiverConfig of a receiver of events.
type ReceiverConfig struct {
	Tenant string // whose events it books
	Prefix string // of the topics: the topic of refunds is Prefix + RefundsTopic

	// Defect is the amount of a refund that this version of the receiver cannot book. 0 means that it can book all.
	Defect int64

	// Log gets the outcome of each message. Default: slog.Default().
	Log *slog.Logger
}

// Receive books the events of a broker until ctx ends. db was opened by [OpenEvents].
func (db *DB) Receive(ctx context.Context, from Consumer, cfg ReceiverConfig) error {
	return db.receive(ctx, from, cfg)
}

// receiving returns the receiver on s.
func receiving[TX any](s store.Store[TX], view func(TX) queries, of func(Consumer) consume[TX]) func(context.Context, Consumer, ReceiverConfig) error {
	return func(ctx context.Context, from Consumer, cfg ReceiverConfig) error {
		engine := once.New(s, once.Config{})
		bookings := bookingsOf(engine, cfg.Log)
		latest := inbox.New(engine, inbox.Config{Consumer: LatestConsumer, Order: inbox.LatestVersion, Observer: inbox.Log(cfg.Log)})

		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		failed := make(chan error, 2)
		var consumers sync.WaitGroup
		start := func(in *inbox.Inbox[TX], fn func(context.Context, queries, *received) error, topics ...string) {
			for i := range topics {
				topics[i] = cfg.Prefix + topics[i]
			}
			consumers.Go(func() {
				if err := of(from)(ctx, in, handling(&cfg, view, fn), topics); err != nil {
					failed <- err
					cancel()
				}
			})
		}
		start(bookings, cfg.book, ChargesTopic, RefundsTopic)
		start(latest, cfg.keepLatest, RefundsTopic)
		consumers.Wait()
		close(failed)
		return <-failed // nil, unless a consumer has failed
	}
}

// Receiver is the receiver of bookings over HTTP: a handler of events that a relay sends to a path that ends with their topic, and run, which must
// run at the same time. db was opened by [OpenEvents].
func (db *DB) Receiver(cfg ReceiverConfig) (handler http.Handler, run func(context.Context) error) {
	return db.booking(cfg)
}

// booking returns the receiver of a database on s.
func booking[TX any](s store.Store[TX], view func(TX) queries) func(ReceiverConfig) (http.Handler, func(context.Context) error) {
	return func(cfg ReceiverConfig) (http.Handler, func(context.Context) error) {
		bookings, book := bookingsOf(once.New(s, once.Config{}), cfg.Log), handling(&cfg, view, cfg.book)
		return httpbroker.Receiver(bookings, book, httpbroker.ReceiverConfig{}), func(ctx context.Context) error { return bookings.Run(ctx, book) }
	}
}

func bookingsOf[TX any](engine *once.Engine[TX], log *slog.Logger) *inbox.Inbox[TX] {
	return inbox.New(engine, inbox.Config{
		Consumer: BookingsConsumer, Order: inbox.InOrder, Observer: inbox.Log(log),
		Policy: &retry.Policy{Attempts: 3, Base: 20 * time.Millisecond, Cap: 100 * time.Millisecond, Total: -1},
	})
}

// handling returns the handler that applies an event by fn.
func handling[TX any](cfg *ReceiverConfig, view func(TX) queries, fn func(context.Context, queries, *received) error) inbox.Handler[TX] {
	return func(ctx context.Context, tx TX, m message.Message) error {
		r, err := cfg.read(&m)
		if err != nil {
			return err
		}
		return fn(ctx, view(tx), r)
	}
}

// received is one event.
type received struct {
	*message.Message

	topic   string // without its prefix
	subject string // the id of the charge or refund
	amount  int64
}

// read reads an event.
func (cfg *ReceiverConfig) read(m *message.Message) (*received, error) {
	var body struct {
		ID     string `json:"id"`
		Amount int64  `json:"amount"`
	}
	if err := json.Unmarshal(m.Payload, &body); err != nil {
		return nil, retry.Permanent(fmt.Errorf("the event is neither a charge nor a refund: %w", err))
	}
	return &received{m, strings.TrimPrefix(m.Topic, cfg.Prefix), body.ID, body.Amount}, nil
}

// book writes one booking. The bookings of a charge are numbered, so that their order can be seen later.
func (cfg *ReceiverConfig) book(ctx context.Context, tx queries, r *received) error {
	if r.Type == refundSucceeded && cfg.Defect != 0 && r.amount == cfg.Defect {
		return fmt.Errorf("this version of the receiver cannot book a refund of %d", r.amount)
	}
	last := int64(0)
	if _, err := one(ctx, tx, []any{&last}, `
		select coalesce(max(place), 0) from booking where tenant = $1 and charge_id = $2 and topic = $3`,
		cfg.Tenant, r.Key, r.topic); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `
		insert into booking (tenant, id, charge_id, topic, place, seq, event_id, source, event_type, subject, amount, booked_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		cfg.Tenant, newID("bk_"), r.Key, r.topic, last+1, r.Seq, r.ID, r.Source, r.Type, r.subject, r.amount, now())
	return err
}

// keepLatest replaces the stored event of a charge by r. The inbox calls it only if r is newer.
func (cfg *ReceiverConfig) keepLatest(ctx context.Context, tx queries, r *received) error {
	n, err := tx.exec(ctx, `
		update latest_refund set seq = $3, event_type = $4, subject = $5 where tenant = $1 and charge_id = $2`,
		cfg.Tenant, r.Key, r.Seq, r.Type, r.subject)
	if err == nil && n == 0 {
		_, err = tx.exec(ctx, `
			insert into latest_refund (tenant, charge_id, seq, event_type, subject) values ($1, $2, $3, $4, $5)`,
			cfg.Tenant, r.Key, r.Seq, r.Type, r.subject)
	}
	return err
}
