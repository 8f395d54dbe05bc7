// Package retryhttp retries HTTP requests, but only requests that can be repeated without taking effect twice.
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
//	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: once.NewKey()}) // one per intent
//	req, err := http.NewRequestWithContext(ctx, "POST", url, body)
//	resp, err := client.Do(req)
//
// # Which requests are repeated
//
// Requests whose method is safe or idempotent (GET, HEAD, OPTIONS, TRACE, QUERY, PUT, DELETE), and any request with an idempotency key, in its
// header, by [WithKey] or by [Transport.Keys], or with an empty list of lines for that header, which is net/http's sign for repeatable requests
// without a key. All attempts have the same key and the same body, also across redirects. Any other request is sent again only if it has provably not
// been executed: no connection was made, the server has refused the stream, or it has answered 425 (Too Early). Otherwise the caller gets the
// failure, and [GivenUp] or the error says that a key was missing.
//
//	connection refused, reset, closed; no answer in time    again
//	425                                                      again, also without a key
//	408, 429, 5xx but not 501, 505, 511                      again
//	429 with Retry-After                                     again; rate limits have a budget of their own
//	409 of oncehttp, "in flight"                             again; it costs three tenths of a retry
//	409 with Stripe-Should-Retry: true                       likewise: it is Stripe's "in flight"
//	409 for a key, with Retry-After (0 as well) or
//	"retryable": true                                        likewise: that of others
//	Stripe-Should-Retry: true                                again, whatever the status else
//	Stripe-Should-Retry: false                               final
//	Idempotent-Replayed: true, with a failure                final: the key has that answer for good
//	"retryable": false in a problem document                 final
//	any other 4xx, a bare 409 included                       final
//	an untrusted certificate, an alert of TLS                final
//	a name that does not exist, a refusal of CONNECT         final
//	a malformed request, a header that is too large          final
//
// Only one layer retries: below another [Transport], or in a request that is made with
// the context of an attempt, each request is sent once.
//
// Retry-After is understood in seconds, with a fraction, and in the three forms of a date, and so is retry-after-ms. No attempt is made earlier than
// it says. If that would be after the deadline, the caller gets the answer at once. A time of 0, or a past one, does not change the pauses.
//
// # Headers
//
//	Idempotency-Key      the key, if the request has none in its header: as it is, or as
//	                     "key" with [Dialect.Quoted]
//	Once-Attempt         1, 2, ...; if the request has one, it is counted from there. Only
//	                     to hosts that have answered with Idempotency-Status, or with
//	                     [Dialect.Announce]; and so is
//	X-Request-Timeout    how long this attempt waits, in milliseconds, if it is bounded; one
//	                     of the caller is shortened by the time that has passed, and ends the call
//	Once-First-Sent      for a resumed intent: when it was stored in the journal
//
// If another attempt follows an answer, the answer is dropped with its cookies: the Jar of an [http.Client] gets only the cookies of the answer that
// the caller gets.
//
// # Crashes
//
// With a [Transport.Journal] a request is on the disk before it leaves, if it has a key of its caller, not one of [Transport.Keys]. It stays there
// until the caller has closed the body of its answer: see package journal. An answer that proves nothing, such as a 500 or a redirect to a login
// page, leaves its intent open, and the same request may take effect later.
//
// # Hidden retries of net/http
//
// [http.Transport] repeats a POST that has an Idempotency-Key by itself when a kept-alive connection dies, without counting it. Over HTTP/2 it
// repeats any request that the server has refused, or has reset with PROTOCOL_ERROR, which does not prove that the server has not looked at it. Here
// it cannot: attempts have no GetBody; without a body, the name of the key's header is written in lower case, which is the same for a server; and an
// attempt that net/http begins again over HTTP/2 is ended. So each arrival at the server is an attempt with a number. The exceptions are safe
// requests on HTTP/1, which are counted if Base passes the context on to an *http.Transport, and requests that have not left this machine.
//
// # At most once
//
// A key makes a request repeatable only if the server dedupes by it. For other servers use [Transport.AtMostOnce]: a request whose method is not safe
// is sent again only if the server has provably not looked at it. A call of package lease without SafeToRepeat or DedupedFor sets this itself, in its
// context.
//
// # Connections that have died
//
// A NAT or a load balancer forgets idle connections, and the next request on one of them gets a reset. If a kept-alive connection ends without one
// byte of an answer, that says nothing about the server: a repeatable request is sent again at once. That is counted and observed, but it is not an
// attempt in the sense of Policy.Attempts, and the budget does not pay for it. After 8 such connections in one call all idle ones of Base are closed,
// and after 100 they are failures like any other. Over HTTP/2 all requests of a connection lose it together: then each of them pays a tenth of a
// retry.
//
// # Bodies
//
// The body of a request is read again by its GetBody, which [http.NewRequest] sets for the usual readers. Without GetBody, up to 64 KiB of a known
// length are recorded while they are sent, however slowly; otherwise the request is sent once, and never again with half a body.
//
// A response belongs to the caller once its header has arrived, body included: if a download breaks off, the caller gets the error. Only a short
// answer to a request with a key is read first ([Transport.Buffer]): the effect is already made, and the same key gets the same answer again,
// complete.
package retryhttp
