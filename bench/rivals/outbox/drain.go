package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncelib/once"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
)

// drainer delivers a backlog to a handler that does nothing, with default settings.
type drainer struct {
	name     string
	messages int
	// fill adds the backlog and returns what delivers it until its ctx ends, and calls handled with each message.
	fill func(ctx context.Context, n int) (deliver func(ctx context.Context, handled func()) error, err error)
	laps []float64 // messages per second
}

// patience is far more than any backlog takes.
const patience = 10 * time.Minute

// drain measures from the first message that is handled to the last one.
func (d *drainer) drain(ctx context.Context) (perSecond float64, err error) {
	deliver, err := d.fill(ctx, d.messages)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var n atomic.Int64
	var began, ended time.Time
	all, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		stopped <- deliver(ctx, func() {
			switch n.Add(1) {
			case 1:
				began = time.Now()
			case int64(d.messages):
				ended = time.Now()
				close(all)
			}
		})
	}()
	select {
	case <-all:
	case err := <-stopped:
		return 0, fmt.Errorf("%s has handled %d of %d messages: %w", d.name, n.Load(), d.messages, errors.Join(err, ctx.Err()))
	}
	cancel()
	return float64(d.messages-1) / ended.Sub(began).Seconds(), <-stopped
}

func drainers(pool *pgxpool.Pool) []*drainer {
	return []*drainer{
		{name: "once: relay", messages: 50_000, fill: func(ctx context.Context, n int) (func(context.Context, func()) error, error) {
			return fillOnce(ctx, pool, n)
		}},
		{name: "River, 100 workers", messages: 5000, fill: func(ctx context.Context, n int) (func(context.Context, func()) error, error) {
			return fillRiver(ctx, pool, n)
		}},
		{name: "watermill-sql, default schema", messages: 5000, fill: func(_ context.Context, n int) (func(context.Context, func()) error, error) {
			return fillWatermill(pool, n)
		}},
	}
}

func fillOnce(ctx context.Context, pool *pgxpool.Pool, n int) (func(context.Context, func()) error, error) {
	if _, err := pool.Exec(ctx, "truncate once_outbox, once_stream"); err != nil {
		return nil, err
	}
	box := outbox.New(pgxstore.New(pool, pgxstore.Config{}), outbox.Config{})
	for left := n; left > 0; left -= 1000 {
		messages := make([]oncemessage.Message, min(left, 1000))
		for i := range messages {
			messages[i] = oncemessage.Message{Topic: topic, Key: account(), Type: event, Payload: body}
		}
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return box.Add(ctx, tx, messages...) }); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, handled func()) error {
		return box.Relay(outbox.PublisherFunc(func(_ context.Context, messages []oncemessage.Message) []error {
			for range messages {
				handled()
			}
			return nil
		}), outbox.RelayConfig{}).Run(ctx)
	}, nil
}

func fillRiver(ctx context.Context, pool *pgxpool.Pool, n int) (func(context.Context, func()) error, error) {
	if _, err := pool.Exec(ctx, "truncate river_job"); err != nil {
		return nil, err
	}
	var handled func()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[job]) error {
		handled()
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	})
	if err != nil {
		return nil, err
	}
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = job{string(body)}
	}
	if _, err := client.InsertManyFast(ctx, jobs); err != nil {
		return nil, err
	}
	return func(ctx context.Context, h func()) error {
		handled = h
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		<-ctx.Done()
		return client.Stop(context.WithoutCancel(ctx))
	}, nil
}

func fillWatermill(pool *pgxpool.Pool, n int) (func(context.Context, func()) error, error) {
	topic := "drain_" + once.NewKey() // tables of its own
	schema := wsql.DefaultPostgreSQLSchema{}
	p, err := wsql.NewPublisher(wsql.BeginnerFromPgx(pool), wsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	messages := make([]*message.Message, n)
	for i := range messages {
		messages[i] = message.NewMessage(once.NewKey(), body)
	}
	for some := range slices.Chunk(messages, 1000) {
		if err := p.Publish(topic, some...); err != nil {
			return nil, err
		}
	}
	s, err := wsql.NewSubscriber(wsql.BeginnerFromPgx(pool), wsql.SubscriberConfig{
		SchemaAdapter: schema, OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, handled func()) error {
		arriving, err := s.Subscribe(ctx, topic)
		if err != nil {
			return err
		}
		for m := range arriving {
			handled()
			m.Ack()
		}
		return s.Close()
	}, nil
}
