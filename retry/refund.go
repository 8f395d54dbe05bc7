package retry

// Refund gives back what [Budget.Spend] has taken for a class. It is for a request that was paid
// for before its outcome was known, such as one that is delivered again after a crash: if it
// succeeds, it costs nothing.
func (b *Budget) Refund(c Class) {
	if c == ClassRateLimited {
		giveBack(&b.limited, 1)
		return
	}
	giveBack(&b.used, c.price(0))
}
