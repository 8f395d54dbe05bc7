// Package openapi holds the tests in which validators judge the documents of
// oncehttp.OpenAPI, and the middleware by these documents.
package openapi
