package retry

import "sync/atomic"

// crowd is how many others make a failure one of the destination. At 5 % of isolated
// failures, one intent in 8,000 is the third in a row.
const crowd = 2

// silence tells the failure of one attempt from that of its destination. A bucket alone
// does not: in an outage every client empties its own first, and what may still be at
// work stands in a queue there, with all that was sent again. The retry throttling of
// gRPC (gRFC A6) and the client-side throttling of the SRE book look at the rate of
// failures, which takes some to be seen. For a timeout the order is enough: a queue that
// has not answered those who came later will not answer who comes last.
type silence struct {
	failing atomic.Int64 // intents, since the last success
	begun   atomic.Int64 // attempts that have a number
	latest  atomic.Int64 // of those that have succeeded
}

// Begin numbers an attempt before it is sent. It is for callers of [Policy.Next] that give
// attempts up after a time, as package retryhttp does: they set [Failure.Silent], and
// after a success they call Answered instead of Succeed. Then a destination that answers
// none of many requests gets no retry at all. [Do] numbers nothing, and knows
// timeouts by context.DeadlineExceeded and os.ErrDeadlineExceeded.
func (b *Budget) Begin() (number int64) { return b.begun.Add(1) }

// Answered is [Budget.Succeed] for an attempt that has a number.
func (b *Budget) Answered(number int64) {
	for latest := b.latest.Load(); latest < number && !b.latest.CompareAndSwap(latest, number); {
		latest = b.latest.Load()
	}
	b.Succeed()
}

// others counts those that have fared like f, which was given up unanswered.
func (s *silence) others(f *Failure) int64 {
	var before, later int64
	if f.Attempt == 1 {
		before = s.failing.Add(1) - 1
	} else { // its intent has been counted
		before = max(0, s.failing.Load()-1)
	}
	if f.Silent > 0 && s.latest.Load() < f.Silent {
		later = s.begun.Load() - f.Silent
	}
	return before + later
}
