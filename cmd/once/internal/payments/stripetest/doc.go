// Package stripetest shows that Stripe's own Go library, unmodified, works against the
// payments service in the dialect stripe-v1, and that its retries take effect once when
// answers are lost. It is all in the tests.
package stripetest
