// Package retryhttp retries HTTP requests. The package does not repeat a request that may take effect twice.
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
//	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: once.NewKey()}) // one per intent
//	req, err := http.NewRequestWithContext(ctx, "POST", url, body)
//	resp, err := client.Do(req)
//
// # Which requests are repeated
//
// A request is repeated if its method is safe or idempotent (GET, HEAD, OPTIONS, TRACE, QUERY, PUT, DELETE). A request is also repeated if it has
// an idempotency key, from the header Idempotency-Key, from [WithKey] or from [Transport.Keys]. A request is also repeated if its http.Header has
// an entry Idempotency-Key with an empty list of values: in net/http an empty list means that the request may be repeated without a key. All
// attempts of a request have the same key and the same body, also after a redirect.
//
// A request with neither a key nor an idempotent method (for example a POST without a key) is sent again only if the request has provably not
// been executed: no connection was made, the server has refused the HTTP/2 stream, or the server has answered 425 (Too Early). If a request
// without a key may have been executed, the caller gets the failure, and [GivenUp] or the error says that a key was missing.
//
//	connection refused, reset, closed; no answer in time    again
//	425                                                      again, also without a key
//	421 of package home: its problem document has a code
//	that begins with TRANSIENT, and "retryable": true        again
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
// Nested Transports do not multiply attempts. If a [Transport] is the Base of another Transport, it sends each request only one time. A
// Transport also sends a request only one time if the request has the context of an attempt of another Transport.
//
// The header Retry-After may be a number of seconds, also with a fraction, or a date in one of the three date formats of HTTP. The Transport
// also understands the header retry-after-ms, a number of milliseconds. No attempt is made before the time in the header Retry-After or
// retry-after-ms. If the time in the header Retry-After is after the deadline of the call, the caller gets the answer at once. If the time in
// the header Retry-After is 0 or in the past, the pauses do not change.
//
// # Headers
//
//	Idempotency-Key      the key, if the caller has not set this header: as key, or as
//	                     "key" with [Dialect.Quoted]
//	Once-Attempt         1, 2, ...; if the caller has set this header, the count begins with the caller's number.
//	                     The header is sent only to hosts that have answered with Idempotency-Status,
//	                     or if [Dialect.Announce] is set
//	X-Request-Timeout    how long this attempt waits, in milliseconds, if the attempt has a time limit. The header
//	                     is sent to the same hosts as Once-Attempt. If the caller has set this header, its
//	                     time also limits the whole call, and each attempt sends the time that is left
//	Once-First-Sent      for a request that the journal sends again: the time at which the request was stored
//
// If the Transport makes another attempt after an answer, the Transport drops this answer and its cookies. The Jar of an [http.Client] gets only
// the cookies of the last answer, the answer that the caller gets.
//
// # Crashes
//
// If [Transport.Journal] is set, a request whose key the caller has set is stored on the disk before the request is sent. (A key that
// [Transport.Keys] has added is not a key that the caller has set.) The request stays in the journal until the caller has closed the body of its
// answer: see package journal. If the answer does not prove the outcome of the request, the request stays in the journal, and may take effect
// later. A 500, a redirect to a login page, and an answer whose body breaks off do not prove the outcome.
//
// # Hidden retries of net/http
//
// When a kept-alive connection breaks, [http.Transport] repeats a POST that has an Idempotency-Key, and does not report the repetition. Over
// HTTP/2, [http.Transport] repeats every request that the server has refused, and every request whose stream the server has reset with the code
// PROTOCOL_ERROR. A PROTOCOL_ERROR does not prove that the server has not read the request. Package retryhttp prevents hidden repetitions by
// net/http in three ways. The http.Request of an attempt has no GetBody, because net/http needs GetBody to repeat a request with a body. If the
// body of a request is empty, package retryhttp writes the name of the header Idempotency-Key in lower case: net/http does not recognise the name
// in lower case, but servers treat both spellings as the same name. If net/http repeats an attempt over HTTP/2, package retryhttp ends the
// attempt. So each request that arrives at the server is an attempt with a number, with two exceptions. net/http may still repeat a request that
// has not left this machine. net/http may also repeat a safe request over HTTP/1, and package retryhttp counts the repetition only if Base passes
// the context to an *http.Transport.
//
// # At most once
//
// A key makes a request repeatable only if the server uses the key to recognise duplicates. For servers that do not recognise duplicates, set
// [Transport.AtMostOnce]. With AtMostOnce, a request whose method is not safe is sent again only if the server has provably not read the
// request. AtMostOnce also applies to each request whose context comes from a lease.Call, unless the policy of this call has SafeToRepeat or
// DedupedFor.
//
// # Connections that have died
//
// A NAT or a load balancer drops idle connections, and the next request on a dropped connection gets a reset. A kept-alive connection that breaks
// before the first byte of an answer does not mean that the server is down. So if a request may be repeated, the request is sent again at once.
// A request that is sent again because its connection broke has a number and an event, but Policy.Attempts does not count this request, and the
// request takes nothing from the budget. After 8 broken connections in one call all idle connections of Base are closed. After 100 broken
// connections in one call, each further broken connection counts as an ordinary failure. Over HTTP/2, all requests on a connection fail together
// when the connection breaks. For each request that is sent again after an HTTP/2 connection broke, the Transport takes a tenth of a retry from
// the budget.
//
// # Bodies
//
// For another attempt, the Transport gets the body of a request again from GetBody, which [http.NewRequest] sets for the usual readers. Without
// GetBody, the Transport records the body during the first attempt, if the length of the body is known and at most 64 KiB. If the Transport
// neither gets nor records a body, it does not retry the request, because it can send the body only one time.
//
// The caller gets a response when the header of the response has arrived. If the body of the response breaks off later, the caller gets the error,
// and no retry follows. A short answer to a request with a key is an exception: the Transport reads the body of a short answer before the caller
// gets the response (see [Transport.Buffer]). If the body of a short answer breaks off, the request is sent again, because the server answers the
// same key with the same answer.
package retryhttp
