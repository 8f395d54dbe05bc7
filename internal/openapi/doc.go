// Package openapi holds the tests that let a validator judge the documents of
// oncehttp.OpenAPI, and the middleware by them. It is a module of its own, which is never
// released, so that nobody who uses once has a validator among his dependencies.
package openapi
