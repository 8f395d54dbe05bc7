package main

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncelib/once/internal/testenv"
)

// TestRepeatedJobIsBookedOnce: a job that River runs again, after its end was lost, is booked once.
func TestRepeatedJobIsBookedOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	pool, client, err := newClient(ctx, testenv.NewDatabase(t), workersOf)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	done, stop := client.Subscribe(river.EventKindJobCompleted)
	defer stop()
	job, err := client.Insert(ctx, Booking{Amount: 700}, nil)
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	for run := 1; run <= 3; run++ {
		select {
		case <-done:
		case <-ctx.Done():
			t.Fatal("the job does not end")
		}
		if run < 3 { // River has not recorded that it is done
			if retried, err := client.JobRetry(ctx, job.Job.ID); err != nil || retried.State == rivertype.JobStateCompleted {
				t.Fatalf("%+v, %v", retried, err)
			}
		}
	}
	if err := client.Stop(ctx); err != nil {
		t.Error(err)
	}
	var booked int
	if err := pool.QueryRow(ctx, "select count(*) from booking").Scan(&booked); err != nil || booked != 1 {
		t.Errorf("booked %d times, %v", booked, err)
	}
}
