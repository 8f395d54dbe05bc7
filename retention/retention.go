// Package retention deletes finished operations whose retention is over: in small
// transactions, with pauses, so that requests are hardly slowed down.
//
//	sweeper := retention.New(engine.Store(), retention.Config{})
//	go sweeper.Run(ctx)
//
// An operation is absent for every caller as soon as it has expired; deleting its row later
// only frees space. Every node may run a sweeper: they share
// the work, and no sweeper waits for another. Operations that are running, or whose outcome
// is unknown, are never deleted.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Defaults of [Config].
const (
	DefaultBatch         = 100
	DefaultBatchArchived = 5000 // with Archive: each batch costs a few flushes of the disk, but locks nothing meanwhile
	DefaultRate          = 10_000
	DefaultEvery         = time.Minute
)

// Config of a [Sweeper]. The zero value is ready to use.
type Config struct {
	// Batch is how many rows one transaction deletes at most. While transactions are
	// slow, which means a busy database, it is less. Default 100,
	// with Archive 5000.
	Batch int

	// Rate is how many rows a second are deleted at most. At least half of the time is
	// pauses, whatever the rate; a store that knows when others could write counts that as
	// one. Lower it for a MariaDB or MySQL with few cores, to which a row costs several
	// times what it costs PostgreSQL. Default 10,000.
	Rate int

	// Every is how long [Sweeper.Run] pauses when nothing is left, give or take a half,
	// so that nodes which have started together do not stay in step. Default a minute.
	Every time.Duration

	// Archive is called with the rows of a batch before they are deleted, such as
	// (*archive.Writer).Write. They are deleted only if it returns nil, and so may come
	// again: the process may die in between. Default: rows are deleted without a copy.
	Archive func(ctx context.Context, rows []upkeep.Expired) error

	// Observe is called after each batch and at the end of each pass, synchronously.
	// Default: no function.
	Observe func(Pass)
}

// Pass is the progress of one pass over the expired operations.
type Pass struct {
	Rows int           // deleted
	Took time.Duration // pauses included
	Over bool          // the pass has ended
	Err  error         // why it has ended early
}

// Sweeper deletes expired operations. Its methods can be called concurrently.
type Sweeper struct {
	store upkeep.Sweeper
	cfg   Config
}

// New returns a sweeper of s, which must be an [upkeep.Sweeper] or wrap one. It panics if it is not, or if
// cfg is invalid, which is a mistake in the program.
func New(s store.Operations, cfg Config) *Sweeper {
	sweeper, ok := store.As[upkeep.Sweeper](s)
	if !ok {
		panic(fmt.Sprintf("retention: New: %T cannot sweep. Try: a store with the method Sweep, or with Unwrap if it wraps one", s))
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
	return &Sweeper{sweeper, cfg}
}

// Sweep deletes all expired operations and returns how many rows it has deleted. It ends
// early, and returns the rows so far, on the first error and when ctx is over.
func (s *Sweeper) Sweep(ctx context.Context) (rows int, err error) {
	began := time.Now()
	p := pace{batch: s.cfg.Batch, most: s.cfg.Batch, rate: s.cfg.Rate, keeps: s.cfg.Archive != nil}
	req := upkeep.Sweep{Archive: s.cfg.Archive}
	for {
		req.Limit = p.batch
		swept, took, err := s.batch(ctx, req)
		rows += swept.Rows
		over := err != nil || !swept.More
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

// patience bounds one batch: a sweep that hangs must not look like one that works.
const patience = time.Minute

var errSlow = errors.New("retention: a batch has taken too long")

func (s *Sweeper) batch(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
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
