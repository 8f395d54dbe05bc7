package consume

import (
	"math/rand/v2"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// pressure is how many batches may run at once. A batch that the database refuses halves it and pauses all
// workers. One that has waited for long for a connection takes a quarter of it: others need the pool. Each other batch that
// succeeds makes room for a fraction of one more.
type pressure struct {
	most     int
	allowed  float64
	refusals int       // in a row
	until    time.Time // no batch begins before
	slowed   time.Time // when a batch that had waited for long has ended and has counted
}

func newPressure(most int) pressure { return pressure{most: most, allowed: float64(most)} }

func (p *pressure) limit() int { return int(p.allowed) }

// ended notes how a batch has ended that began at a time, and reports whether the database has begun to refuse, or has stopped
// refusing.
func (p *pressure) ended(began, now time.Time, refused, slow bool) (changed bool) {
	if !refused {
		changed = p.refusals > 0
		p.refusals, p.until = 0, time.Time{}
		switch {
		case !slow:
			p.allowed = min(float64(p.most), p.allowed+1/p.allowed)
		case !began.Before(p.slowed): // batches that have waited at the same time count once
			p.allowed = max(1, p.allowed*3/4)
			p.slowed = now
		}
		return changed
	}
	if now.Before(p.until) {
		return false // it began before the pause: one outage counts once
	}
	p.refusals++
	p.allowed = max(1, p.allowed/2)
	p.until = now.Add(backoff(p.refusals))
	return p.refusals == 1
}

// isRefused reports whether the database, and not a message, is the reason that nothing of a batch was applied. Messages that have
// failed before may wait for locks that no others wait for.
func isRefused(results []inbox.Result, sick bool) bool {
	for _, r := range results {
		if !isUnavailable(r.Err) || sick && store.KindOf(r.Err) == store.KindBusy {
			return false
		}
	}
	return len(results) > 0
}

// longestWait is how long a batch has waited until its transaction began.
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

// backoff is the pause after so many failures in a row.
func backoff(failures int) time.Duration {
	p := retry.Policy{ // it gives nothing up, and costs nothing
		Attempts: failures + 1, Base: 100 * time.Millisecond, Cap: longestBackoff, Total: -1, Budget: &retry.Budget{Burst: -1},
	}
	wait, _ := p.Next(retry.FailedAttempt{Attempt: failures, Class: retry.ClassTransient, Random: rand.Float64()})
	return max(wait, 10*time.Millisecond)
}

// delay is when a message is tried again after err.
func delay(failures int, err error) time.Duration {
	if _, after := retry.Classify(err); after > 0 {
		return after
	}
	return backoff(failures)
}
