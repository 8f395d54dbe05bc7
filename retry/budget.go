package retry

import "sync/atomic"

// Budget lets retries happen in proportion to successes. It is a bucket that begins
// full: a retry takes one from it, a success puts a tenth of one back. While a
// destination is well, every failure can be retried; when it is down, retries stop after
// Burst of them, and come back as it does.
//
// What was given up unanswered, after a timeout, may still be at work there, and a retry
// comes on top of it. So it is not retried if at least three others have fared alike at
// other times: intents that were given up before, since the last success, or attempts that
// were begun later, while none of those has succeeded (see [Budget.Begin]). Another time
// is half of the time that the attempt has waited. So what hangs together, because a
// server hung for a moment, is retried as far as the budget goes; and what has failed by
// itself, as when a connection breaks under many requests at once, is not held against
// others.
//
// A rate limit is no distress: a server that says when to come back, in an answer of
// [ClassRateLimited], wants to be asked then. Such retries have a bucket of their own, of five
// times Burst, into which each success puts one back. So workers who share a quota wait for
// their turns, and a server that refuses everything is still left alone after a while.
//
// What is sent more than once for one intent should be paid for from the one budget of
// its destination: retries, hedges, redeliveries. The zero value is ready to use.
type Budget struct {
	// Percent is how many retries a hundred successes earn. Default 10; negative: none.
	Percent int

	// Burst is how many retries there can be without a success in between. Keep it
	// small: it is what a whole fleet adds to the load of an outage. Default 10;
	// negative: no limit, of no kind.
	Burst int

	silence

	name    string
	used    atomic.Int64 // hundredths of a retry that are missing from a full bucket
	limited atomic.Int64 // retries that are missing from the bucket for rate limits
	spent   atomic.Uint64
	refused atomic.Uint64
}

// shared is the budget of what names none.
var shared = Budget{name: "(default)"}

// Succeed is to be called after each attempt that has succeeded.
func (b *Budget) Succeed() {
	if b.used.Load()|b.failing.Load()|b.limited.Load() > 0 { // else it is only read: callers on all cores share it
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

// Spend takes what another attempt after a failure of class c costs, and reports whether
// there was enough. [Do] and [Policy.Next] call it; a relay that delivers again does so
// itself.
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

// limitedSize is that of the bucket for rate limits.
func (b *Budget) limitedSize() int64 { return 5 * b.size() / 100 }

// crowded is how many rate limited retries, without as many successes, are spread out: if
// all come back at the same moment, most of them are refused again.
const crowded = 5

func (b *Budget) crowded() bool { return b.limited.Load() >= crowded }

// BudgetState is what a budget looked like at some moment.
type BudgetState struct {
	Destination string
	Left        float64 // retries; meaningless if Burst is negative
	Burst       int
	Failing     int    // intents that were given up unanswered, since the last success
	Spent       uint64 // retries that were allowed
	Refused     uint64 // retries that were not
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
