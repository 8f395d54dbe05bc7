// Package limit keeps a server from doing more at the same time than it can. What is too
// much waits for a moment, or is refused before anything was done for it, with the time
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
// It belongs inside of authentication, if tenants are told apart by it, and outside of
// all that costs something. Handlers that oncehttp protects have it as their
// Config.Gate, not around them: there, where all places are taken, a retry
// that was executed before is answered from the record, and only new work is refused. One
// limiter may serve both kinds, and should, if they use the same pool.
//
// # What is refused
//
// At most Limit requests are served at the same time. Up to Queue more wait for their
// turn, if it is likely to come within Wait and if the answer is likely to come while the
// client still waits (X-Request-Timeout, or the deadline of the request's context). The
// rest is refused at once, unread:
//
//	RATE_LIMIT.exceeded     429  this tenant has more waiting than its share
//	TRANSIENT.overloaded    503  there is no room, or not in time
//
// Both are retryable, with the same key, after Retry-After. It comes from how long
// requests have taken lately, how many are waiting, and how long nothing has got done. A
// minute is the most that is said. Those who are refused together are told different
// moments, as far apart as they can be served.
//
// # Tenants
//
// A free place is given to the tenant with the fewest requests being served; where that
// is undecided they take turns. So a tenant that sends more than others waits behind its own requests.
// Where the queue is full, a tenant with fewer waiting takes the place of the last request
// of the tenant with the most.
//
// # How many places
//
// Limit is right for handlers that have a pool of connections for themselves. Where others use
// the pool as well, or it is behind a proxy, [Pool] has as many places as the pool has connections to
// give. Where a processor or another service is what has too little, package limit/adaptive finds
// out how many places there should be from how long requests take.
//
// # What it does not see
//
// A place is held from before the body is read until the handler has returned: bound slow
// clients with ReadTimeout of [net/http.Server]. Several processes do not know of each
// other: each has its Limit. Requests that oncehttp passes straight through, since their
// method has no keys, do not come by the Gate.
package limit
