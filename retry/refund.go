package retry

// Refund puts the tokens that [Budget.Spend] has taken for a failure of class c back into the budget. Use Refund if Spend was called before the
// outcome of a request was known, as for a message that is delivered again after a crash. If the delivery succeeds, call Refund to put the price
// of the delivery back.
func (b *Budget) Refund(c Class) {
	if c == ClassRateLimited {
		giveBack(&b.limited, 1)
		return
	}
	giveBack(&b.used, c.price(0))
}
