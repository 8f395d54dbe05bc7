// Package stripe has the dialects of Stripe's API for package oncehttp, for services whose clients
// are made for Stripe.
//
//	protect := oncehttp.Middleware(engine, oncehttp.Config{Principal: account, Preset: stripe.V1()})
package stripe
