// Package retention deletes finished operations whose retention is over. The package deletes in small
// transactions with pauses between them, so that requests are hardly slowed down.
//
//	sweeper := retention.New(engine.Store(), retention.Config{})
//	go sweeper.Run(ctx)
//
// When the retention of an operation has passed, an engine treats the operation as absent, even if its row
// still exists. So the deletion of the operation's row only frees space. Every node may run a sweeper: the
// sweepers share the work, and do not wait for each other. Operations that are running, or whose outcome is
// unknown, are never deleted.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// These constants are the defaults of the fields of [Config].
const (
	DefaultBatch         = 100
	DefaultBatchArchived = 5000 // with Archive; higher than without Archive, because each batch costs a few flushes of the disk, but locks no rows during the flushes
	DefaultRate          = 10_000
	DefaultEvery         = time.Minute
)

// Config configures a [Sweeper]. The zero value is ready to use.
type Config struct {
	// Batch is the largest number of rows that one transaction deletes. While transactions are slow, because
	// the database is busy, the sweeper uses smaller batches. With Archive, the sweeper begins with small
	// batches, makes the batches larger while the archive is quick, and halves the batches after an error. On
	// SQL databases, a batch for the archive also ends after 8 MiB, because the rows of the batch are in
	// memory. Default: 100; if Archive is set, 5,000.
	Batch int

	// Rate is the largest number of rows that the sweeper deletes in a second. Whatever Rate is, the sweeper
	// pauses for at least half of the time. If the store reports that other transactions were able to write
	// during a part of the sweeper's transaction, this part of the time counts as a pause. Use a lower rate
	// for MariaDB and MySQL servers with few cores, because on these servers the deletion of a row costs
	// several times as much as on PostgreSQL. Default: 10,000.
	Rate int

	// Every is the length of the pause of [Sweeper.Run] when no expired rows are left. The pause varies at
	// random by up to half of Every, so that nodes which have started at the same time do not sweep at the same
	// time. Default: 1 minute.
	Every time.Duration

	// Archive is called with the rows of a batch before the rows are deleted; an example of such a function is
	// the method (*archive.Writer).Write. The rows are deleted only if Archive returns nil. Archive may receive
	// a row twice, because the process may die after the call of Archive and before the deletion. The call of
	// Archive and the deletion of a batch together may take ten minutes; after ten minutes the pass over the
	// expired rows ends with an error. Default: rows are deleted without a copy.
	Archive func(ctx context.Context, rows []upkeep.Expired) error

	// Observe is called synchronously after each batch and at the end of each pass over the expired rows.
	// Default: no function.
	Observe func(Pass)
}

// Pass is the progress of one pass. A pass finds all expired operations and deletes them.
type Pass struct {
	Rows int           // the number of rows that the pass has deleted so far
	Took time.Duration // the time since the pass over the expired operations began, including pauses
	Over bool          // the pass has ended
	Err  error         // the error with which the pass has ended early, or nil
}

// Sweeper deletes expired operations. The methods of Sweeper can be called concurrently.
type Sweeper struct {
	store upkeep.Sweeper
	cfg   Config
	kept  atomic.Int64 // with Archive: how many rows the next batch has at most, also in the next pass
}

// New returns a sweeper of s. The store s must implement [upkeep.Sweeper], or wrap a store that implements
// upkeep.Sweeper. If s does not implement or wrap an upkeep.Sweeper, or if cfg is invalid, New panics,
// because the program has a mistake.
func New(s store.Operations, cfg Config) *Sweeper {
	sweeper, ok := store.As[upkeep.Sweeper](s)
	if !ok {
		panic(fmt.Sprintf("retention: New: the store %T has no method Sweep. Try: a store with the method Sweep; a store that wraps another store needs the method Unwrap", s))
	}
	if cfg.Batch < 0 || cfg.Rate < 0 || cfg.Every < 0 {
		panic(fmt.Sprintf("retention: New: Batch %d, Rate %d and Every %v must not be negative", cfg.Batch, cfg.Rate, cfg.Every))
	}
	if cfg.Batch == 0 {
		cfg.Batch = DefaultBatch
		if cfg.Archive != nil {
			cfg.Batch = DefaultBatchArchived
		}
	}
	if cfg.Rate == 0 {
		cfg.Rate = DefaultRate
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	created := &Sweeper{store: sweeper, cfg: cfg}
	// Small at first, because a process that runs once must not begin with more rows than its archive can take in time.
	created.kept.Store(int64(min(cfg.Batch, DefaultBatch)))
	return created
}

// Sweep deletes all expired operations and returns the number of deleted rows. At the first error, or when ctx
// ends, Sweep returns the number of rows that it has already deleted.
func (s *Sweeper) Sweep(ctx context.Context) (rows int, err error) {
	began := time.Now()
	p := pace{batch: s.cfg.Batch, most: s.cfg.Batch, rate: s.cfg.Rate, keeps: s.cfg.Archive != nil}
	if p.keeps {
		p.batch = int(s.kept.Load())
	}
	req := upkeep.Sweep{Archive: s.cfg.Archive}
	for {
		req.Limit = p.batch
		swept, took, err := s.batch(ctx, req)
		if p.resize(swept, took, err); p.keeps {
			s.kept.Store(int64(p.batch))
		}
		rows += swept.Rows
		// If a batch has found the same rows as the last one, another transaction has locked them. A later pass deletes them.
		over := err != nil || !swept.More || swept.Rows == 0 && !swept.Mark.After(req.After)
		s.observe(Pass{rows, time.Since(began), over, err})
		if over {
			return rows, err
		}
		req.After = swept.Mark
		if !sleep.For(ctx, p.pause(swept.Rows, took, cmp.Or(swept.Held, took))) {
			err := ctx.Err()
			s.observe(Pass{rows, time.Since(began), true, err})
			return rows, err
		}
	}
}

// A batch is bounded in time, because a sweep that hangs must not look like a sweep that works.
const (
	patience     = time.Minute
	patienceKept = 10 * time.Minute // with Archive, because the rows of a batch that has taken too long are archived again
)

var errSlow = errors.New("retention: a batch of the sweep has taken too long")

func (s *Sweeper) batch(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, time.Duration, error) {
	bound := patience
	if req.Archive != nil {
		bound = patienceKept
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errSlow)
	defer cancel()
	began := time.Now()
	swept, err := s.store.Sweep(ctx, req)
	if err != nil && context.Cause(ctx) == errSlow { //nolint:errorlint // it is that very one
		err = errors.Join(errSlow, err)
	}
	return swept, time.Since(began), err
}

func (s *Sweeper) observe(p Pass) {
	if s.cfg.Observe != nil {
		s.cfg.Observe(p)
	}
}
