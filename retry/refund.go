package retry

// Refund gives back what [Budget.Spend] has taken for a class: whoever pays before it is
// known whether there will be a failure, as for what is delivered again after a crash, is
// not to have paid for a success.
func (b *Budget) Refund(c Class) {
	if c == ClassRateLimited {
		giveBack(&b.limited, 1)
		return
	}
	giveBack(&b.used, c.price(0))
}
