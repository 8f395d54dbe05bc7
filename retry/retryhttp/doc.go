// Package retryhttp retries HTTP requests. It repeats only requests that cannot take effect twice.
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
//	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: once.NewKey()}) // one per intent
//	req, err := http.NewRequestWithContext(ctx, "POST", url, body)
//	resp, err := client.Do(req)
//
// # Which requests are repeated
//
// Three kinds of requests are repeated. First, requests whose method is safe or idempotent (GET, HEAD, OPTIONS, TRACE, QUERY, PUT, DELETE). Second,
// requests that have an idempotency key, from the header Idempotency-Key, from [WithKey] or from [Transport.Keys]. Third, requests whose http.Header
// has the header Idempotency-Key with an empty list of values, which in net/http means that the request may be repeated without a key. All attempts
// have the same key and the same body, also across redirects.
//
// Any other request is sent again only if it has provably not been executed: no connection was made, the server has refused the HTTP/2 stream, or the
// server has answered 425 (Too Early). If the request may have been executed, the caller gets the failure, and [GivenUp] or the error says that a key
// was missing.
//
//	connection refused, reset, closed; no answer in time    again
//	425                                                      again, also without a key
//	408, 429, 5xx but not 501, 505, 511                      again
//	429 with Retry-After                                     again; rate limits have a separate budget
//	409 of oncehttp, "in flight"                             again; it costs three tenths of a retry
//	409 with Stripe-Should-Retry: true                       the same: Stripe's "in flight"
//	409 for a key, with Retry-After (0 as well) or
//	"retryable": true                                        the same: "in flight" of other services
//	Stripe-Should-Retry: true                                again, with any other status
//	Stripe-Should-Retry: false                               final
//	Idempotent-Replayed: true, with a failure                final: the key will always get this answer
//	"retryable": false in a problem document                 final
//	any other 4xx, a 409 without these headers included      final
//	an untrusted certificate, an alert of TLS                final
//	a name that does not exist, a refusal of CONNECT         final
//	a malformed request, a header that is too large          final
//
// Only one layer retries. If a Transport is the Base of another [Transport], or if a request has the context of an attempt, the inner layer sends
// each request once.
//
// Retry-After may be a number of seconds, also with a fraction, or a date in one of the three forms of HTTP. The header retry-after-ms, in
// milliseconds, is also understood. No attempt is made before the time in the header. If this time is after the deadline of the call, the caller gets
// the answer at once. If the time in the header is 0 or in the past, the pauses do not change.
//
// # Headers
//
//	Idempotency-Key      the key, if the caller has not set this header: as key, or as
//	                     "key" with [Dialect.Quoted]
//	Once-Attempt         1, 2, ...; if the caller has set it, the count begins with the caller's number. It is
//	                     sent only to hosts that have answered with Idempotency-Status, or
//	                     with [Dialect.Announce]
//	X-Request-Timeout    how long this attempt waits, in milliseconds, if the attempt has a time limit; sent
//	                     to the same hosts. If the caller has set it, it also limits the
//	                     whole call, and each attempt sends the time that is left
//	Once-First-Sent      for a resumed request: when it was stored in the journal
//
// If another attempt follows an answer, that answer and its cookies are dropped. The Jar of an [http.Client] gets only the cookies of the last
// answer, which the caller gets.
//
// # Crashes
//
// With a [Transport.Journal], a request with a key of the caller is stored on the disk before it is sent. (A key that [Transport.Keys] has added does
// not count.) The request stays in the journal until the caller has closed the body of its answer: see package journal. If the answer does not prove
// the outcome, as a 500 or a redirect to a login page, the request stays in the journal, and may take effect later.
//
// # Hidden retries of net/http
//
// When a kept-alive connection dies, [http.Transport] by itself repeats a POST that has an Idempotency-Key, and does not report this. Over HTTP/2,
// [http.Transport] repeats any request that the server has refused, or has reset with PROTOCOL_ERROR. A PROTOCOL_ERROR does not prove that the server
// has not read the request. Under this package net/http cannot do that, for three reasons. Attempts have no GetBody. If the body is empty, the header
// name of the key is written in lower case, which net/http does not recognise and which servers treat as the same name. An attempt that net/http
// begins again over HTTP/2 is ended. So each request that arrives at the server is an attempt with a number. There are two exceptions: safe requests
// over HTTP/1, which are counted if Base passes the context to an *http.Transport, and requests that have not left this machine.
//
// # At most once
//
// A key makes a request repeatable only if the server uses the key to recognise duplicates. For other servers set [Transport.AtMostOnce]: a request
// whose method is not safe is then sent again only if the server has provably not read the request. A call of package lease that has neither
// SafeToRepeat nor DedupedFor sets the same rule in the context of its request.
//
// # Connections that have died
//
// A NAT or a load balancer drops idle connections, and the next request on such a connection gets a reset. If a kept-alive connection ends before the
// first byte of an answer, this does not mean that the server fails, so a repeatable request is sent again at once. The re-send on a new connection
// has a number and an event, but it is not counted in Policy.Attempts, and the budget does not pay for it. After 8 such connections in one call all
// idle connections of Base are closed. After 100 such connections, each further one counts as an ordinary failure. Over HTTP/2, all requests on a
// connection fail together when the connection dies; the re-send of each of these requests costs a tenth of a retry.
//
// # Bodies
//
// For another attempt, the body of a request is read again by its GetBody, which [http.NewRequest] sets for the usual readers. Without GetBody, a
// body of known length of up to 64 KiB is recorded while the first attempt sends it. A request with any other body is not retried, because such a
// body can be sent only one time.
//
// The caller gets a response when the header of the response has arrived. If the body of the response breaks off later, the caller gets the error,
// and no retry follows. The exception is a short answer to a request with a key: the body of this answer is read before the caller gets the response
// ([Transport.Buffer]). If this body breaks off, the request is sent again, because the same key gets the same complete answer again.
package retryhttp
