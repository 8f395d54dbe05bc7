package killstorm

import (
	"fmt"
	"math/rand/v2"

	"github.com/oncelib/once"
)

// order is one refund that a customer wants, and what happens to it on the way.
type order struct {
	index  int
	key    string // the same for every attempt
	amount int64  // no two orders refund the same amount, so the database tells whose a refund is
	charge string // set when the charges exist

	copies   int  // clients that send it at the same moment
	again    bool // it is sent once more when it was answered long ago
	conflict bool // the key is then used for another amount, by mistake
	crashes  int  // so many clients are killed when they have asked for it
}

const (
	firstAmount  = 1_000         // of the first order; the next is 1 more
	wrongAmount  = 1_000_000_000 // the same for requests that must be refused
	chargeAmount = 1_000_000_000_000_000
	charges      = 8 // orders share them, so that refunds of one charge meet
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

// rng decides what happens to the attempts of one sender of o.
func (o *order) rng(seed uint64, sender int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(1+o.index)<<8|uint64(sender)))
}

func (o *order) body() string {
	return fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, o.charge, o.amount)
}

// wrongBody is what a client with a mistake in it sends under the same key.
func (o *order) wrongBody() string {
	return fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, o.charge, o.amount+wrongAmount)
}

// fate is what the network does with one attempt.
type fate uint8

const (
	deliver fate = iota // the answer arrives
	drop                // the service answers, and the answer is lost
	hangUp              // the client closes as soon as it has sent
	cutOff              // half of the request arrives, then the client is gone
	doom                // the request arrives, and its client waits for its own death
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

// planKills returns, for each SIGKILL, which order must be under way when it is sent.
func planKills(kills, orders int, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 1<<63))
	at := make([]int, kills)
	for k := range at {
		from, to := k*orders/kills, (k+1)*orders/kills
		at[k] = from + rng.IntN(max(1, to-from))
	}
	return at
}
