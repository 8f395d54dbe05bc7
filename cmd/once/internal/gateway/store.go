package gateway

import (
	"context"
	"crypto/rand"
	"database/sql"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// backing is the store and the receipts of the gateway. It stays the same until the process ends.
type backing struct {
	ops      store.Operations // nil if the receipts decide alone
	leases   *lease.Store     // on ops
	receipts gateway.Receipts // nil if no receipts are configured
	atOnce   int              // the largest number of concurrent questions for receipts
	name     string           // of the store, without its password
	isSQLite bool
	quota    *limit.Quota // nil if callers have no quota
	gauges   []gauge.Source
	ask      func(context.Context) error // returns an error if the store does not answer
	write    func(context.Context) error // returns an error if the store cannot be written; nil if the gateway writes nothing
	closes   []func()
}

func (b *backing) close() {
	for _, f := range b.closes {
		f()
	}
}

// openBacking opens store and receipts.
func openBacking(ctx context.Context, cfg *config, log *slog.Logger) (_ *backing, err error) {
	b := new(backing)
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if cfg.Receipt != "" {
		if err := b.openReceipts(ctx, cfg.Receipt); err != nil {
			return nil, err
		}
	}
	if cfg.Store == storeReceipt {
		b.name = nameOfStore(storeReceipt)
		b.ask = func(ctx context.Context) error {
			_, _, err := b.receipts.Look(ctx, "once-check")
			return err
		}
		return b, nil
	}
	if err := b.openStore(ctx, cfg.Store, time.Duration(cfg.Lease), log); err != nil {
		return nil, err
	}
	if q := cfg.Quota; q != nil {
		b.quota = limit.NewQuota(b.ops, limit.QuotaConfig{Bytes: int64(q.Bytes), Every: time.Duration(q.Every), Log: log})
		b.gauges = append(b.gauges, b.quota)
	}
	return b, nil
}

// openStore opens the store of the operations. It creates a missing SQLite file, which belongs to the gateway.
func (b *backing) openStore(ctx context.Context, url string, ttl time.Duration, log *slog.Logger) error {
	db, err := openDatabase(ctx, url, true)
	if err != nil {
		return err
	}
	b.closes = append(b.closes, db.close)
	b.isSQLite, b.name = db.Dialect == sqlplane.SQLite, db.Name
	switch s := db.store.(type) {
	case store.Store[*sql.Tx]:
		b.leases, b.ops = lease.New(s, lease.Config{TTL: ttl, Log: log}), s
	case store.Store[pgx.Tx]:
		b.leases, b.ops = lease.New(s, lease.Config{TTL: ttl, Log: log}), s
	}
	if pool, ok := store.As[upkeep.Pooled](b.ops); ok {
		b.gauges = append(b.gauges, gauge.Pool(pool))
	}
	if backlog, ok := store.As[upkeep.Backlogger](b.ops); ok {
		b.gauges = append(b.gauges, gauge.Operations(backlog))
	}
	b.ask = func(ctx context.Context) error {
		_, err := b.ops.Read(ctx, store.ID{Scope: "once-check", Key: "once-check"})
		return err
	}
	b.write = probe(b.ops)
	if err := b.ask(ctx); err != nil {
		return db.Failed("read", err)
	}
	return nil
}

// probe returns a function that writes a small record, by one Swap. Each call replaces the one record of the process, which expires at once, so that
// the sweep of the gateway deletes it. A claim and its release would leave no record. But if the process were killed between the claim and the
// release, the claimed operation would count as stuck.
func probe(ops store.Operations) func(context.Context) error {
	key := "once-check-" + rand.Text()
	return func(ctx context.Context) error {
		_, err := ops.Swap(ctx, store.Change{
			ID: store.ID{Scope: "once-check", Key: key}, Retain: time.Millisecond,
			Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte(rand.Text())[:16], Result: store.Result{Kind: store.ResultValue}},
		})
		if store.KindOf(err) == store.KindTaken { // the record is not expired yet
			return nil
		}
		return err
	}
}

// openReceipts opens the receipts of the service: an endpoint, or its database.
func (b *backing) openReceipts(ctx context.Context, url string) error {
	if isEndpoint(url) {
		client, err := receipt.NewClient(url, receipt.ClientConfig{})
		b.receipts, b.atOnce = client, askedAtOnce
		return err
	}
	db, err := openDatabase(ctx, url, false)
	if err != nil {
		return err
	}
	b.closes = append(b.closes, db.close)
	var table *receipt.Table
	switch s := db.store.(type) {
	case store.Store[*sql.Tx]:
		table = receipt.New(s, receipt.Config{})
	case store.Store[pgx.Tx]:
		table = receipt.New(s, receipt.Config{})
	}
	b.receipts, b.atOnce = table, db.conns
	if err := table.Check(ctx); err != nil {
		if lacks := db.Lacks(err, "receipts", receipt.Migrations.Capability); lacks != nil {
			return lacks
		}
		return db.Failed("read the receipts in", err)
	}
	return nil
}

// database is a database with a store.
type database struct {
	*cli.Database

	store any
	conns int // the size of the pool
	close func()
}

// askedAtOnce is the largest number of concurrent requests to an endpoint for receipts.
const askedAtOnce = 64

// mostConns is the size of a pool, unless its URL has pool_max_conns. A connection is held for single statements, never for a forward.
const mostConns = 16

// openDatabase opens a database: PostgreSQL with pgxstore, which needs fewer round trips. It creates a missing SQLite file if the file is the
// gateway's own. Such a file commits in groups.
func openDatabase(ctx context.Context, url string, isOwn bool) (_ *database, err error) {
	db, err := cli.OpenDatabase(ctx, url, isOwn)
	if err != nil {
		return nil, err
	}
	opened := &database{db, nil, mostConns, func() { _ = db.Close() }}
	defer func() {
		if err != nil {
			opened.close()
			err = db.Failed("open", err)
		}
	}()
	switch {
	case db.Dialect == sqlplane.PostgreSQL:
		cfg, err := pgxpool.ParseConfig(db.DSN)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(db.DSN, "pool_max_conns") {
			cfg.MaxConns = mostConns
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return nil, err
		}
		opened.conns = int(pool.Config().MaxConns)
		opened.store, opened.close = pgxstore.New(pool, pgxstore.Config{}), func() { pool.Close(); _ = db.Close() }
		return opened, nil
	case db.Dialect == sqlplane.SQLite && isOwn:
		if !strings.HasPrefix(url, "file:") { // a data source name has its own settings
			if _, err := db.ExecContext(ctx, "pragma journal_mode = wal"); err != nil {
				return nil, err
			}
		}
		if err := sqlstore.Migrate(ctx, db.DB, operate.Migrations); err != nil {
			return nil, err
		}
	case db.Dialect == sqlplane.MySQL:
		db.SetMaxOpenConns(mostConns)
		db.SetMaxIdleConns(mostConns) // database/sql would keep two, and connect again and again
	}
	s, err := sqlstore.New(ctx, db.DB, sqlstore.Config{GroupCommit: db.Dialect == sqlplane.SQLite && isOwn, NoOperations: !isOwn})
	opened.store = s
	return opened, err
}
