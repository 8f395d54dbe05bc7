package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestOneEffect: whatever fails, breaks or dies, a job that River runs again has one effect.
func TestOneEffect(t *testing.T) {
	testenv.Prove(t)
	dsn := testenv.NewDatabase(t)
	pool, _, err := newClient(t.Context(), dsn, workersOf) // makes the tables
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	engine := func(p *oncetest.Process) *once.Engine[pgx.Tx] {
		cfg, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.ConnConfig.DialFunc = p.Dial
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return once.New(oncetest.Store(p, store.Store[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}))), once.Config{Observer: once.Discard})
	}
	for name, start := range map[string]func(p *oncetest.Process) func(ctx context.Context, row *rivertype.JobRow) error{
		"payout": func(p *oncetest.Process) func(context.Context, *rivertype.JobRow) error {
			w := &payer{engine: engine(p)}
			return func(ctx context.Context, row *rivertype.JobRow) error {
				return w.Work(ctx, &river.Job[Payout]{JobRow: row, Args: Payout{Account: "acme", Cents: 5}})
			}
		},
		"booking": func(p *oncetest.Process) func(context.Context, *rivertype.JobRow) error {
			w := &booker{in: inbox.New(engine(p), inbox.Config{Consumer: "bookings"})}
			return func(ctx context.Context, row *rivertype.JobRow) error {
				return w.Work(ctx, &river.Job[Booking]{JobRow: row, Args: Booking{Amount: 5}})
			}
		},
		"welcome": func(p *oncetest.Process) func(context.Context, *rivertype.JobRow) error {
			w := &worker{engine: engine(p)}
			return func(ctx context.Context, row *rivertype.JobRow) error {
				return w.Work(ctx, &river.Job[Welcome]{JobRow: row, Args: Welcome{Customer: row.ID}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := int64(0)
			oncetest.Inbox(t, oncetest.Consumer{
				Start: func(p *oncetest.Process) func(context.Context, message.Message) error {
					work := start(p)
					return func(ctx context.Context, m message.Message) error {
						return work(ctx, &rivertype.JobRow{ID: m.Seq, Kind: name, EncodedArgs: []byte(`{"amount":5}`), Attempt: 1})
					}
				},
				Message: func() message.Message {
					job++
					return message.Message{Seq: job}
				},
			})
		})
	}
}
