// Package sqlguard holds the promise of the guard against real databases: for
// every way in which a statement can fail and its error be dropped, nothing of
// the transaction is left and the pool still works. Each case is played without
// the guard, too, which shows what is at stake and that the case is met at all.
package sqlguard
