package main

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"

	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// payout is leased work: GORM writes in two phases, and the bank is called between them.
type payout struct {
	orm   *gorm.DB
	store store.Store[*sql.Tx]
	pay   func(ctx context.Context, key string, f Refund) (transfer string, err error) // the bank dedupes by key
}

func (p *payout) work(ctx context.Context, run *lease.Run, asked Refund) (Refund, error) {
	f, err := lease.InTx(ctx, run, p.store, "create", func(ctx context.Context, tx *sql.Tx) (Refund, error) {
		f := asked // a copy: a phase may run again, and Create sets the ID
		err := in(ctx, p.orm, tx).Create(&f).Error
		return f, err
	})
	if err != nil {
		return f, err
	}
	transfer, err := lease.Call(ctx, run, "pay", func(ctx context.Context, key string) (string, error) {
		return p.pay(ctx, key, f)
	}, lease.CallPolicy{DedupedFor: 24 * time.Hour})
	if err != nil {
		return f, err
	}
	return lease.InTx(ctx, run, p.store, "paid", func(ctx context.Context, tx *sql.Tx) (Refund, error) {
		paid := f
		err := in(ctx, p.orm, tx).Model(&paid).Update("transfer", transfer).Error
		return paid, err
	})
}
