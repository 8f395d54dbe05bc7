package main

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// Booking is a job that is identified by its ID, not by its content.
type Booking struct {
	Amount int64 `json:"amount"`
}

// Kind implements [river.JobArgs].
func (Booking) Kind() string { return "booking" }

// booker applies each job once. The inbox counts attempts, and keeps a job that is given up as a dead letter; a process that calls in.Run(ctx, book)
// applies redriven dead letters.
type booker struct {
	river.WorkerDefaults[Booking]

	in *inbox.Inbox[pgx.Tx]
}

func (b *booker) Work(ctx context.Context, job *river.Job[Booking]) error {
	m := message.Message{ID: strconv.FormatInt(job.ID, 10), Source: "river", Type: job.Kind, Payload: job.EncodedArgs, Delivery: job.Attempt}
	if _, err := b.in.Handle(ctx, m, book); err != nil {
		_, after := retry.Classify(err)
		return river.JobSnooze(after) // counts no attempt of River
	}
	return nil // applied, now or before, or a dead letter
}

func book(ctx context.Context, tx pgx.Tx, m message.Message) error {
	var b Booking
	if err := json.Unmarshal(m.Payload, &b); err != nil {
		return retry.Permanent(err) // another attempt cannot change it
	}
	_, err := tx.Exec(ctx, "insert into booking (amount) values ($1)", b.Amount)
	return err
}
