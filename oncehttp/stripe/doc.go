// Package stripe has two presets for package oncehttp: the dialects of Stripe's API v1 and v2. The presets are for services whose clients are made
// for Stripe.
//
//	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: account, Preset: stripe.V1()})
package stripe
