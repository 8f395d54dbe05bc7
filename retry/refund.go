package retry

// Refund gives back what [Budget.Spend] has taken for a class: whoever pays before it is
// known whether there will be a failure, as for what is delivered again after a crash, is
// not to have paid for a success.
func (b *Budget) Refund(c Class) {
	price := c.price(0)
	for {
		used := b.used.Load()
		if used <= 0 || b.used.CompareAndSwap(used, max(0, used-price)) {
			return
		}
	}
}
