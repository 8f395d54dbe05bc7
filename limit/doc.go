// Package limit bounds the number of requests that a server executes at the same time. Requests above the limit wait for a moment, or are refused
// before the server has done any work for these requests. A refusal says when the client may try again.
//
//	l := limit.New(limit.Config{Limit: 20, Tenant: account})
//
//	mux.Handle("GET /reports", authenticate(l.Middleware(reports)))
//	mux.Handle("POST /refunds", authenticate(oncehttp.Middleware(engine, oncehttp.Config{
//		Principal: account,
//		Gate:      l,
//	})(refunds)))
//
// Put [Limiter.Middleware] outside of all handlers and middleware that do expensive work. Put Limiter.Middleware inside of authentication if
// authentication determines the tenant of a request. For a handler that oncehttp protects, set the limiter as oncehttp.Config.Gate, and do not put
// Limiter.Middleware around the handler. If the limiter of a Gate is full, oncehttp still answers retries of executed requests from their records
// (the stored answers), and refuses only new work. One limiter may serve several handlers, with and without oncehttp; use one limiter if the handlers
// use the same connection pool.
//
// # Which requests are refused
//
// At most Config.Limit requests are served at the same time; each running request occupies one slot. Up to Config.Queue more requests wait for a
// slot. A request waits only if it will probably get a slot within Config.Wait, and if its answer will probably be ready before the client gives up
// (the header X-Request-Timeout, or the deadline of the request's context). If a request gets no slot and does not wait, it is refused at once,
// before its body is read:
//
//	RATE_LIMIT.exceeded     429  this tenant has more waiting requests than its share of the queue
//	TRANSIENT.overloaded    503  the queue is full, or the answer would come too late
//
// After a refusal with 429 or 503, the client may send the same request with the same key again, after the time in Retry-After. The limiter computes
// the time in Retry-After from how long requests have taken lately, how many requests wait, and how long ago the last request has ended. The time in
// Retry-After is at most a minute. Requests that are refused at the same time get different values of Retry-After, so that clients send the requests
// again at the rate at which the server can serve the requests.
//
// # Tenants
//
// A slot that becomes free is given to the tenant with the fewest running requests; tenants with the same number of running requests take turns.
// So a tenant that sends more requests than others waits for its own requests, and does not delay the requests of other tenants. When the queue is
// full and a new request comes from a tenant that has fewer waiting requests than another tenant, the limiter refuses the last waiting request of
// the tenant that has the most waiting requests.
//
// # The number of slots
//
// Use Config.Limit if only the limited handlers use the connection pool. If other code uses the pool too, or if the database is behind a proxy such
// as PgBouncer, use a [Pool] as Config.Capacity: the Pool then offers as many slots as the connection pool has connections for the limited handlers.
// If the bottleneck is a processor or another service, use package limit/adaptive, which computes the number of slots from how long requests take.
//
// # Limits of this package
//
// A request occupies its slot from before its body is read until its handler has returned. So limit slow clients with ReadTimeout of
// [net/http.Server]. Each process has its own limit; several processes cannot share a limit. Package oncehttp does not ask the Gate for a request
// whose method carries no idempotency key, such as GET: oncehttp passes such a request to the handler.
package limit
