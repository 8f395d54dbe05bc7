package retry

import "sync/atomic"

// Budget allows retries in proportion to successes. A Budget is a token bucket that is full at the beginning. A retry takes one token, and a
// success puts a tenth of a token back: see Percent. While a destination is healthy, the budget allows a retry of every failure. While a
// destination is down, the budget allows only Burst retries; the budget allows further retries when requests succeed again.
//
// For a request that timed out, the rule is stricter than for other failures. After a timeout, the destination may still work on the request, and
// a retry adds to the load of the destination. So a request that timed out is not retried if the budget counts at least three other requests
// without an answer. The budget counts a request that timed out earlier, if no request has succeeded since then. The budget also counts a request
// that was sent later than the failed attempt, if no request that was sent later has succeeded: see [Budget.Begin]. The budget counts only
// requests that are earlier or later than the failed attempt by at least half of the timeout of the failed attempt. So if a server hangs only for
// a moment, and several requests time out at the same time, each of these requests is retried if the budget has enough tokens.
//
// A rate limit is not an outage. If a server refuses a request because of a rate limit, and the answer contains a time, the server expects a retry
// at that time: see [ClassRateLimited]. Retries after a rate limit take their tokens from a second bucket, which has five times Burst tokens, and
// each success puts one token back into the second bucket. So workers that share a quota can all retry. If a server refuses every request because
// of a rate limit, the retries stop when the second bucket is empty.
//
// Use one budget for each destination. Every request that is sent again for the same intent (a retry, a hedge or a redelivery) must
// take its price from the budget of its destination. The zero value is ready to use. Any number of goroutines may share a Budget.
type Budget struct {
	// Percent is the number of retries that a hundred successes allow. Default: 10. If Percent is negative, successes
	// allow no retries.
	Percent int

	// Burst is the number of retries that are allowed without a success between them. Choose a small Burst, because in an outage every process
	// sends Burst additional requests. Default: 10. If Burst is negative, retries are not limited.
	Burst int

	silence

	name    string
	used    atomic.Int64 // how much is missing from the full bucket, in hundredths of a retry
	limited atomic.Int64 // how many retries are missing from the bucket for rate limits
	spent   atomic.Uint64
	refused atomic.Uint64
}

// shared is the budget of the calls without a budget of their own.
var shared = Budget{name: "(default)"}

// Succeed puts tokens back into the budget after a success. [Do] calls Succeed; callers of [Policy.Next] must call Succeed after each attempt
// that has succeeded.
func (b *Budget) Succeed() {
	if b.used.Load()|b.failing.Load()|b.limited.Load() > 0 { // if all are zero, this is only a read, because callers on all cores share the cache line
		b.earn()
	}
}

func (b *Budget) earn() {
	// The destination has answered, so earlier silences do not count.
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

// Spend takes the price of another attempt after a failure of class c, and reports whether the budget had enough tokens. [Do] and [Policy.Next] call
// Spend. A program that repeats requests without Do and Policy.Next, such as a relay that redelivers messages, must call Spend before each
// repetition.
func (b *Budget) Spend(c Class) bool { return b.payFor(c, 0) }

// allow reports whether another attempt may follow the failed attempt f, and takes its price.
func (b *Budget) allow(f *FailedAttempt) bool {
	// Several other requests have had no answer either: the destination is probably down, and a retry would only add load.
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
	// The loop repeats only if another goroutine has changed the number meanwhile.
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
	// The limit prevents an overflow.
	return min(int64(b.Burst), 1<<31) * 100
}

// limitedSize returns the size of the bucket for rate limits.
func (b *Budget) limitedSize() int64 { return 5 * b.size() / 100 }

// crowded is a number of missing retries in the bucket for rate limits. From this number on, the budget spreads the retries over time. If all were
// sent at the same moment, the server would refuse most of them again.
const crowded = 5

func (b *Budget) crowded() bool { return b.limited.Load() >= crowded }

// BudgetState is a snapshot of a budget.
type BudgetState struct {
	Destination string
	Left        float64 // retries that are allowed now; meaningless if Burst is negative
	Burst       int
	Failing     int    // the number of calls since the last success that were given up without an answer
	Spent       uint64 // retries that were allowed since the start of the process
	Refused     uint64 // retries that were refused since the start of the process
}

// State returns a snapshot of b.
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
