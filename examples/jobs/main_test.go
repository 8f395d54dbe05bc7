package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestJobsAreBookedOnce: jobs whose end is lost, as when a worker is killed, are booked once, by several workers. One that can never be
// booked becomes a dead letter.
func TestJobsAreBookedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db, in, err := open(ctx, testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"insert into job (kind, payload) select 'booking', '700' from generate_series(1, 20)",
		"insert into job (kind, payload) values ('booking', 'no number')",
		"create sequence ends", // it counts transactions that are rolled back as well
		`create function lost() returns trigger language plpgsql as $$ begin
			if nextval('ends') <= 10 then raise exception 'the worker is killed'; end if; return old; end $$`,
		"create trigger lost before delete on job for each row execute function lost()",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	var lost atomic.Int64
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				switch worked, err := work(ctx, db, in); {
				case err != nil:
					lost.Add(1)
				case !worked:
					return
				}
			}
		})
	}
	workers.Wait()
	for query, want := range map[string]int{
		"select count(*) from job": 0, "select count(*) from booking": 20,
		"select count(*) from once_deadletter where class = 'permanent'": 1,
	} {
		var n int
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d, want %d, %v", query, n, want, err)
		}
	}
	if lost.Load() != 10 {
		t.Errorf("%d jobs were not ended", lost.Load())
	}
}

// TestOneBooking: whatever fails, breaks or dies, a job is booked once. The inbox works on the job here, and no row of the table job is taken.
func TestOneBooking(t *testing.T) {
	testenv.Prove(t)
	dsn := testenv.NewDatabase(t)
	oncetest.Inbox(t, oncetest.Consumer{
		Start: func(p *oncetest.Process) func(context.Context, message.Message) error {
			s, err := prepare(t.Context(), p.Open("pgx", dsn))
			if err != nil {
				t.Fatal(err)
			}
			in := newInbox(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard}))
			return func(ctx context.Context, m message.Message) error {
				_, err := in.Handle(ctx, m, book)
				return err
			}
		},
		Message: func() message.Message {
			return message.Message{Source: "jobs", Type: "booking", Payload: []byte("700")}
		},
	})
}
