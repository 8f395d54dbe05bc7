package retention

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store/upkeep"
)

// firstRetry is the longest pause after a first error. With each further error it doubles, up to Config.Every.
const firstRetry = time.Second

// Run calls Sweep repeatedly until ctx ends, and returns the error of ctx. Run passes errors of the store to
// Config.Observe. After an error Run makes a longer pause, and then continues.
func (s *Sweeper) Run(ctx context.Context) error {
	retry := firstRetry
	for pause := rand.N(s.cfg.Every/10 + 1); ; {
		if !sleep.For(ctx, pause) {
			return ctx.Err()
		}
		if _, err := s.Sweep(ctx); err != nil {
			// A random pause, so that not all nodes return to a database in trouble at the same moment.
			pause = retry/2 + rand.N(retry/2+1)
			retry = min(2*retry, max(firstRetry, s.cfg.Every))
			continue
		}
		pause, retry = s.cfg.Every/2+rand.N(s.cfg.Every+1), firstRetry
	}
}

// pace decides how large batches are, and how long the pauses between them are.
type pace struct {
	batch, most int       // rows of a transaction: now, and at most
	rate        int       // rows a second
	keeps       bool      // with Archive
	due         time.Time // when the rate allows the next batch
}

// After a batch that takes longer than slow, the next batch is smaller. After one that takes less than quick, it is
// larger.
const (
	slow  = 50 * time.Millisecond
	quick = 10 * time.Millisecond
	least = 10 // rows

	// With Archive, the time is mostly that of the archive. Nothing is locked during it, so a batch may take longer.
	slowKept  = 10 * time.Second
	quickKept = time.Second

	// Pauses always last a little too long. The sweeper makes up for this much. It does not make up for a longer
	// stall, because requests must recover from the stall, too.
	behind = 20 * time.Millisecond
)

// resize sets the size of the next batch.
func (p *pace) resize(swept upkeep.Swept, took time.Duration, err error) {
	switch {
	case p.keeps && (err != nil || took > slowKept):
		// Perhaps the archive or the database cannot take so many rows. Then every later batch of this size would fail, too, and the
		// sweep would archive the same rows again and again.
		p.batch = max(1, p.batch/2)
	case p.keeps && swept.More && swept.Rows > 0 && swept.Rows < p.batch:
		// The bytes of the rows have ended the batch, so a larger batch would read rows that it cannot delete.
		p.batch = swept.Rows
	case p.keeps && (took < quickKept || swept.More && swept.Rows == 0): // without rows: the next batch must get past rows that are locked
		p.batch = min(p.most, 2*p.batch)
	case p.keeps:
	case took > slow:
		p.batch = max(min(least, p.most), p.batch/2)
	case took < quick:
		p.batch = min(p.most, p.batch+p.batch/4+1)
	}
}

// pause returns how long to wait after a batch.
func (p *pace) pause(rows int, took, held time.Duration) time.Duration {
	now := time.Now()
	if now.Sub(p.due) > behind { // the first batch, or a stall that the sweeper does not make up for
		p.due = now.Add(-took)
	}
	p.due = p.due.Add(time.Duration(rows) * time.Second / time.Duration(p.rate))
	return max(2*held-took, p.due.Sub(now))
}
