package consume

import (
	"math/rand/v2"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// pressure is the number of batches that may run at the same time. A batch that the database refuses halves this number, and
// pauses all workers. A batch that has waited long for a connection reduces it by a quarter, because others need the pool,
// too. Every other successful batch increases it by a fraction.
type pressure struct {
	most     int
	allowed  float64
	refusals int       // the number of refused batches in a row
	until    time.Time // no batch begins before this time
	slowed   time.Time // when the last batch that has waited long has ended
}

func newPressure(most int) pressure { return pressure{most: most, allowed: float64(most)} }

func (p *pressure) limit() int { return int(p.allowed) }

// ended records the end of a batch. The result changed reports whether the database has begun to refuse work, or has stopped
// refusing it.
func (p *pressure) ended(began, now time.Time, refused, slow bool) (changed bool) {
	if !refused {
		changed = p.refusals > 0
		p.refusals, p.until = 0, time.Time{}
		switch {
		case !slow:
			p.allowed = min(float64(p.most), p.allowed+1/p.allowed)
		case !began.Before(p.slowed): // several batches that have waited at the same time count once
			p.allowed = max(1, p.allowed*3/4)
			p.slowed = now
		}
		return changed
	}
	if now.Before(p.until) {
		return false // the batch began before the pause, and one outage counts once
	}
	p.refusals++
	p.allowed = max(1, p.allowed/2)
	p.until = now.Add(backoff(p.refusals))
	return p.refusals == 1
}

// isRefused reports whether the database, and not a message, is the reason why nothing of a batch was applied. If sick is true,
// the messages have failed before, and may wait for locks that concern only them.
func isRefused(results []inbox.Result, sick bool) bool {
	for _, r := range results {
		if !isUnavailable(r.Err) || sick && store.KindOf(r.Err) == store.KindBusy {
			return false
		}
	}
	return len(results) > 0
}

// longestWait returns the longest time that a transaction of the batch took to begin.
func longestWait(results []inbox.Result) (wait time.Duration) {
	for _, r := range results {
		wait = max(wait, r.Wait)
	}
	return wait
}

func isUnavailable(err error) bool {
	if err == nil {
		return false
	}
	switch store.KindOf(err) {
	case store.KindUnavailable, store.KindBusy, store.KindLost:
		return true
	}
	return once.CodeOf(err) == once.CodeUnavailable
}

const longestBackoff = 10 * time.Second

// backoff returns the pause after a number of failures in a row.
func backoff(failures int) time.Duration {
	p := retry.Policy{ // this policy never gives up, and uses no retry budget
		Attempts: failures + 1, Base: 100 * time.Millisecond, Cap: longestBackoff, Total: -1, Budget: &retry.Budget{Burst: -1},
	}
	wait, _ := p.Next(retry.FailedAttempt{Attempt: failures, Class: retry.ClassTransient, Random: rand.Float64()})
	return max(wait, 10*time.Millisecond)
}

// delay returns the pause before a message is tried again after err.
func delay(failures int, err error) time.Duration {
	if _, after := retry.Classify(err); after > 0 {
		return after
	}
	return backoff(failures)
}
