// Package limit keeps a server from doing more at the same time than it can. Requests above the limit
// wait for a moment, or are refused before any work was done for them, with the time
// after which to come again.
//
//	l := limit.New(limit.Config{Limit: 20, Tenant: account})
//
//	mux.Handle("GET /reports", authenticate(l.Middleware(reports)))
//	mux.Handle("POST /refunds", authenticate(oncehttp.Middleware(engine, oncehttp.Config{
//		Principal: account,
//		Gate:      l,
//	})(refunds)))
//
// Put it inside of authentication, if that says which tenant a request belongs to, and outside of
// all expensive work. Handlers that oncehttp protects have it as their
// Config.Gate, not around them: there, when all places are taken, a retry
// that was executed before is answered from the record, and only new work is refused. One
// limiter may serve both kinds, and should, if they use the same pool.
//
// # Which requests are refused
//
// At most Limit requests are served at the same time. Up to Queue more wait for their
// turn, if it is likely to come within Wait and if the answer is likely to come while the
// client still waits (X-Request-Timeout, or the deadline of the request's context). All
// other requests are refused at once, unread:
//
//	RATE_LIMIT.exceeded     429  this tenant has more waiting than its share
//	TRANSIENT.overloaded    503  no place is free, or not in time
//
// Both are retryable, with the same key, after Retry-After. It is computed from how long
// requests have taken lately, how many are waiting, and how long no request has ended. It is
// a minute at most. Requests that are refused at the same time get different
// moments, as far apart as they can be served.
//
// # Tenants
//
// A free place goes to the tenant with the fewest running requests; tenants with
// equally many take turns. So a tenant that sends more than others waits behind its own requests.
// When the queue is full, a tenant with fewer waiting requests takes the place of the last request
// of the tenant with the most.
//
// # How many places
//
// Limit is right for handlers that have a pool of connections for themselves. Where other code uses
// the pool as well, or it is behind a proxy, [Pool] has as many places as the pool has connections
// available. Where the bottleneck is a processor or another service, package limit/adaptive finds
// out how many places to offer from how long requests take.
//
// # Limits of this package
//
// A place is held from before the body is read until the handler has returned: bound slow
// clients with ReadTimeout of [net/http.Server]. Several processes do not know of each
// other: each has its own Limit. Requests that oncehttp passes straight through, because their
// method has no keys, do not pass the Gate.
package limit
