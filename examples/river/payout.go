package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oncelib/once"
)

// Payout is a job that is an operation: two jobs are two payouts, and a job that River runs again is one.
type Payout struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// Kind implements [river.JobArgs].
func (Payout) Kind() string { return "payout" }

type payer struct {
	river.WorkerDefaults[Payout]

	engine *once.Engine[pgx.Tx]
}

func (p *payer) Work(ctx context.Context, job *river.Job[Payout]) error {
	op := once.Operation{
		Scope:  "jobs",
		Key:    once.DeriveKey(job.Kind, strconv.FormatInt(job.ID, 10)),
		Retain: 30 * 24 * time.Hour, // longer than River tries a job: 25 attempts take three weeks
	}
	_, err := once.Do(ctx, p.engine, op, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		return payOut(ctx, tx, job.Args)
	})
	if f := (*once.Failure)(nil); errors.As(err, &f) {
		return river.JobCancel(f) // a further attempt would fail, too
	}
	return err
}

func payOut(ctx context.Context, tx pgx.Tx, p Payout) (id int64, err error) {
	if p.Cents <= 0 {
		return 0, &once.Failure{Code: "no_amount"}
	}
	return id, tx.QueryRow(ctx, "insert into payout (account, cents) values ($1, $2) returning id", p.Account, p.Cents).Scan(&id)
}
