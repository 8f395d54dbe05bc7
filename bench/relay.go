package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
)

// The relay of an outbox on PostgreSQL, against a hand-written loop that claims messages, publishes them and deletes them.

// relayed has the results of the section.
type relayed struct {
	Drain relayDrain `json:"drain"`
	Delay relayDelay `json:"delay"`
}

func (b *bench) relay(ctx context.Context) (r *relayed, err error) {
	r = new(relayed)
	f, err := b.openRelayField(ctx)
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	if r.Drain, err = b.relayDrain(ctx); err != nil {
		return nil, fmt.Errorf("drain: %w", err)
	}
	if r.Delay, err = b.relayDelay(ctx, f); err != nil {
		return nil, fmt.Errorf("delay: %w", err)
	}
	return r, nil
}

// relayField is an outbox with its consumers.
type relayField struct {
	pool *pgxpool.Pool
	box  *outbox.Box[pgx.Tx]
}

const relayConns = 24 // of 16 writers, and of the consumer

func (b *bench) openRelayField(ctx context.Context) (*relayField, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	f, err := b.relayFieldOn(ctx, database)
	if err == nil {
		if err = pgxstore.Migrate(ctx, f.pool, outbox.Migrations); err != nil {
			f.pool.Close()
		}
	}
	return f, err
}

func (b *bench) relayFieldOn(ctx context.Context, database string) (*relayField, error) {
	pool, err := b.server.pool(ctx, database, relayConns, nil)
	if err != nil {
		return nil, err
	}
	return &relayField{pool, outbox.New(pgxstore.New(pool, pgxstore.Config{}), outbox.Config{})}, nil
}

// tidy empties the outbox without dead rows, and writes all dirty pages to the disk, so that no contestant pays for the one before.
func (f *relayField) tidy(ctx context.Context) error {
	for _, s := range []string{"truncate once_outbox, once_outbox_sent, once_outbox_failed, once_outbox_paused, once_stream", "checkpoint"} {
		if _, err := f.pool.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// consumer delivers messages until its ctx ends. It calls began once, as soon as it is ready to.
type consumer func(ctx context.Context, publish outbox.Publisher, began func()) error

// consume runs c until stop is called, which returns its error.
func consume(ctx context.Context, c consumer, p outbox.Publisher) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- c(ctx, p, sync.OnceFunc(func() { close(ready) })) }()
	select {
	case <-ready:
		return func() error {
			cancel()
			return <-ended
		}, nil
	case err := <-ended:
		cancel()
		return nil, errors.Join(err, errors.New("the consumer has ended"))
	}
}

// relayBy is a relay with a retention of delivered messages, and with a number of concurrent calls of Publish for one topic; 0 is its default. seen
// is called for each finished message.
func (f *relayField) relayBy(keep time.Duration, calls int, seen func(), made func(*outbox.Relay)) consumer {
	return func(ctx context.Context, p outbox.Publisher, began func()) error {
		var fault atomic.Pointer[error]
		const all = 64 // parts
		cfg := outbox.RelayConfig{Concurrency: calls, Observer: relayObserver(func(e outbox.Event) {
			switch {
			case e.Type == outbox.EventDelivered && seen != nil:
				seen()
			case e.Type == outbox.EventTaken && e.Parts == all:
				began()
			case e.Err != nil && ctx.Err() == nil: // errors at the end of Run do not count
				fault.CompareAndSwap(nil, &e.Err)
			}
		})}
		r := outbox.New(pgxstore.New(f.pool, pgxstore.Config{}), outbox.Config{RetainDelivered: keep}).Relay(p, cfg)
		if made != nil {
			made(r)
		}
		err := r.Run(ctx)
		if e := fault.Load(); e != nil {
			err = errors.Join(err, *e)
		}
		return err
	}
}

type relayObserver func(outbox.Event)

func (f relayObserver) Observe(_ context.Context, e outbox.Event) { f(e) }

func (r *relayed) write(p printer) {
	p("\n## Relay\n")
	p("A relay of package outbox on PostgreSQL against a **raw** loop: read up to 1,000 messages in the order of their ids, publish")
	p("them, delete them, with no regard to other processes, failures or messages that commit late. A message has 200 bytes or")
	p("more.")
	r.Drain.write(p)
	r.Delay.write(p)
}
