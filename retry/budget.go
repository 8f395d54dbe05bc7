package retry

import "sync/atomic"

// Budget allows retries in proportion to successes. It is a bucket that begins full: a retry takes one token, a success puts a tenth of a token back.
// While a destination is healthy, every failure can be retried; when it is down, retries stop after Burst of them, and start again as it recovers.
//
// A destination may still be working on a request that was given up after a timeout, and a retry adds to its load. So such a request is not retried
// if at least three others have failed in the same way at other times: intents that were given up earlier, since the last success, or attempts that
// were begun later, while none of these has succeeded (see [Budget.Begin]). Another time is at least half of the attempt's own wait away. So requests
// that time out together, because a server hung for a moment, are retried as far as the budget allows. A single failure, as when a connection breaks
// under many requests at once, does not stop the retries of other requests.
//
// A rate limit is not an outage: a server whose answer is [ClassRateLimited] and has a time wants to be asked again then. Such retries have a bucket
// of their own, of five times Burst, into which each success puts one token back. So workers that share a quota wait for their turns, and a server
// that refuses everything is still no longer asked after a while.
//
// Pay for everything that is sent more than once for one intent from the one budget of its destination: retries, hedges, redeliveries. The zero value
// is ready to use.
type Budget struct {
	// Percent is how many retries a hundred successes earn. Default 10; negative means no retries from successes.
	Percent int

	// Burst is how many retries are allowed without a success in between. Keep it small: in an outage every process adds so many requests to the
	// load. Default 10; negative means no limit at all.
	Burst int

	silence

	name    string
	used    atomic.Int64 // hundredths of a retry that are missing from the full bucket
	limited atomic.Int64 // retries that are missing from the bucket for rate limits
	spent   atomic.Uint64
	refused atomic.Uint64
}

// shared is the budget of calls that name none.
var shared = Budget{name: "(default)"}

// Succeed must be called after each attempt that has succeeded.
func (b *Budget) Succeed() {
	if b.used.Load()|b.failing.Load()|b.limited.Load() > 0 { // with all zero it only reads: callers on all cores share the cache line
		b.earn()
	}
}

func (b *Budget) earn() {
	b.heard()
	giveBack(&b.limited, 1)
	earned := int64(max(0, b.Percent))
	if b.Percent == 0 {
		earned = 10
	}
	giveBack(&b.used, earned)
}

func giveBack(used *atomic.Int64, n int64) {
	for {
		u := used.Load()
		if u <= 0 || used.CompareAndSwap(u, max(0, u-n)) {
			return
		}
	}
}

// Spend takes the price of another attempt after a failure of class c, and reports whether the budget was sufficient. [Do] and [Policy.Next] call it;
// a relay that delivers again calls it itself.
func (b *Budget) Spend(c Class) bool { return b.payFor(c, 0) }

// allow decides on another attempt after f.
func (b *Budget) allow(f *FailedAttempt) bool {
	if f.Class == ClassUnknown && f.Silent != 0 && b.Burst >= 0 && b.others(f) >= crowd {
		b.refused.Add(1)
		return false
	}
	return b.payFor(f.Class, f.Attempt)
}

func (b *Budget) payFor(c Class, attempt int) bool {
	if c == ClassRateLimited {
		return b.pay(&b.limited, 1, b.limitedSize())
	}
	return b.pay(&b.used, c.price(attempt), b.size())
}

func (b *Budget) pay(from *atomic.Int64, price, size int64) bool {
	for b.Burst >= 0 {
		used := from.Load()
		if used+price > size {
			b.refused.Add(1)
			return false
		}
		if from.CompareAndSwap(used, used+price) {
			break
		}
	}
	b.spent.Add(1)
	return true
}

func (b *Budget) size() int64 {
	if b.Burst == 0 {
		return 10 * 100
	}
	return min(int64(b.Burst), 1<<31) * 100
}

// limitedSize is the size of the bucket for rate limits.
func (b *Budget) limitedSize() int64 { return 5 * b.size() / 100 }

// crowded is a number of retries that a rate limit has refused, less the successes since. From this number on, the budget spreads the retries over
// time: if all were sent at the same moment, most of them would be refused again.
const crowded = 5

func (b *Budget) crowded() bool { return b.limited.Load() >= crowded }

// BudgetState is the state of a budget at some moment.
type BudgetState struct {
	Destination string
	Left        float64 // retries; meaningless if Burst is negative
	Burst       int
	Failing     int    // intents that were given up without an answer, since the last success
	Spent       uint64 // allowed retries
	Refused     uint64 // refused retries
}

// State returns the state of b.
func (b *Budget) State() BudgetState {
	return BudgetState{
		Destination: b.name,
		Left:        float64(b.size()-b.used.Load()) / 100,
		Burst:       int(b.size() / 100),
		Failing:     int(b.failing.Load()),
		Spent:       b.spent.Load(),
		Refused:     b.refused.Load(),
	}
}
