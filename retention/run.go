package retention

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
)

// firstRetry is the longest pause after a first error. With each further error it doubles, up to Config.Every.
const firstRetry = time.Second

// Run calls Sweep repeatedly until ctx ends, and returns the error of ctx. Errors of the store are passed to
// Config.Observe; after an error the pause is longer, and Run continues.
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
	batch, most int // rows of a transaction: now, and at most
	rate        int // rows a second
	keeps       bool
	due         time.Time // when the rate allows the next batch
}

// After a batch that takes longer than slow, the next batch is smaller. After one that takes less than quick, it is
// larger.
const (
	slow  = 50 * time.Millisecond
	quick = 10 * time.Millisecond
	least = 10 // rows

	// Pauses always last a little too long. The sweeper makes up for this much. It does not make up for a longer
	// stall, because requests must recover from the stall, too.
	behind = 20 * time.Millisecond
)

// pause returns how long to wait after a batch, and sets the size of the next batch.
func (p *pace) pause(rows int, took, held time.Duration) time.Duration {
	now := time.Now()
	if now.Sub(p.due) > behind { // the first batch, or a stall that the sweeper does not make up for
		p.due = now.Add(-took)
	}
	p.due = p.due.Add(time.Duration(rows) * time.Second / time.Duration(p.rate))
	switch {
	case p.keeps: // the time is that of the archive, and nothing is locked during it
	case took > slow:
		p.batch = max(min(least, p.most), p.batch/2)
	case took < quick:
		p.batch = min(p.most, p.batch+p.batch/4+1)
	}
	return max(2*held-took, p.due.Sub(now))
}
