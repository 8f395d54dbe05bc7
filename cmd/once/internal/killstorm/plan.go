package killstorm

import (
	"fmt"
	"math/rand/v2"

	"github.com/oncelib/once"
)

// order is one refund that a customer wants, and the faults that its requests meet.
type order struct {
	index  int
	key    string // the same for every attempt
	amount int64  // no two orders have the same amount, so the database shows to which order a refund belongs
	charge string // set when the charges have been made

	copies   int  // clients that send it at the same moment
	again    bool // it is sent once more, long after it was answered
	conflict bool // the key is then used for another amount, by mistake
	crashes  int  // how many clients are killed after they have sent it
}

const (
	firstAmount  = 1_000         // of the first order; each next order has 1 more
	wrongAmount  = 1_000_000_000 // likewise, for requests that must be refused
	chargeAmount = 1_000_000_000_000_000
	charges      = 8 // a small number, so that many refunds have the same charge
	refundsPath  = "/refunds"
	chargesPath  = "/charges"
)

// plan makes n orders. Every tenth order meets all kinds of faults, so that even a small storm has each kind.
func plan(n int, seed uint64) []*order {
	rng := rand.New(rand.NewPCG(seed, 0))
	orders := make([]*order, n)
	for i := range orders {
		o := &order{index: i, amount: firstAmount + int64(i), copies: 1}
		o.key = once.DeriveKey("refund", fmt.Sprintf("order-%d", i+1))
		if rng.IntN(5) == 0 || i%10 == 0 {
			o.copies += 1 + rng.IntN(3)
		}
		o.again = rng.IntN(5) == 0 || i%10 == 0
		o.conflict = rng.IntN(10) == 0 || i%10 == 0
		orders[i] = o
	}
	return orders
}

// rng returns the random numbers that decide what happens to the attempts of one sender of o.
func (o *order) rng(seed uint64, sender int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(1+o.index)<<8|uint64(sender)))
}

func (o *order) body() string {
	return fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, o.charge, o.amount)
}

// wrongBody returns the body that a faulty client sends under the same key.
func (o *order) wrongBody() string {
	return fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, o.charge, o.amount+wrongAmount)
}

// fate is what the network does with one attempt.
type fate uint8

const (
	deliver fate = iota // the answer arrives
	drop                // the service answers, and the answer is lost
	hangUp              // the client disconnects as soon as the request is sent
	cutOff              // the client disconnects after half of the request
	doom                // the request arrives, and its client waits until it is killed
)

func pickFate(rng *rand.Rand) fate {
	switch n := rng.IntN(100); {
	case n < 14:
		return drop
	case n < 20:
		return hangUp
	case n < 24:
		return cutOff
	}
	return deliver
}

// planKills returns, for each kill, the number of the order that must have been sent before.
func planKills(kills, orders int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 1<<63))
	at := make([]int, kills)
	for k := range at {
		from, to := k*orders/kills, (k+1)*orders/kills
		at[k] = from + rng.IntN(max(1, to-from))
	}
	return at
}
