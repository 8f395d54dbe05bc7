// Package retryhttp retries HTTP requests, and only those that can be repeated without
// taking effect twice.
//
//	client := &http.Client{Transport: &retryhttp.Transport{}}
//
//	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: once.NewKey()}) // one per intent
//	req, err := http.NewRequestWithContext(ctx, "POST", url, body)
//	resp, err := client.Do(req)
//
// # What is repeated
//
// Requests whose method is safe or idempotent (GET, HEAD, OPTIONS, TRACE, QUERY, PUT,
// DELETE), and any that carries an idempotency key, in its header, by [WithKey] or by
// [Transport.Keys], or that has the header without a line, as net/http wants it from
// requests that can be repeated and have no key. All attempts carry the same key and the same body, also across
// redirects. Another request is sent again only if it has provably not been executed: no
// connection was made, the server has refused the stream, or it has answered 425 (Too Early).
// Otherwise its failure is given back, and [GivenUp] or the error says that a key was missing.
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
// Retry-After is understood in seconds, with a fraction, and in the three forms of a date,
// and so is retry-after-ms. No attempt is
// made earlier than it asks for; if that would be after the deadline, the answer is given
// back at once. A time of 0, or one that is over, leaves the pauses as they are.
//
// # What is sent
//
//	Idempotency-Key      the key, if the request has none in its header: as it is, or as
//	                     "key" with [Dialect.Quoted]
//	Once-Attempt         1, 2, ...; if the request has one, it is counted from there. Only
//	                     to hosts that have answered with Idempotency-Status, or with
//	                     [Dialect.Announce]; and so is
//	X-Request-Timeout    how long this attempt waits, in milliseconds, if it is bounded; one
//	                     of the caller is shortened by what has passed, and ends the call
//	Once-First-Sent      with an intent that is resumed: since when it is in the journal
//
// An answer that is followed by another attempt is dropped with its cookies: the Jar of an
// [http.Client] gets those of the answer that the caller gets.
//
// # Crashes
//
// With a [Transport.Journal] a request with a key of its caller, not one that was made by
// [Transport.Keys], is on the disk before it leaves, and stays there until the caller has
// closed the body of its answer: see package journal. An answer that proves nothing, such
// as a 500 or a redirect to a login page, leaves its intent open, and the same request may
// take effect later.
//
// # What net/http does behind one's back
//
// [http.Transport] repeats a POST that has an Idempotency-Key by itself when a kept-alive
// connection dies, which is not counted. Over HTTP/2 it repeats any request that the server has
// refused, or has reset with PROTOCOL_ERROR, which does not prove that the server has not looked at it. Here it
// cannot: attempts have no GetBody; if there is no body either, the name of the key's header is spelt in lower case, which
// is the same to a server, and an attempt that net/http begins again over HTTP/2 is ended. So each
// arrival at the server is an attempt with a number.
// What remains are safe requests on HTTP/1, which are counted if Base passes the context
// on to an *http.Transport, and requests that have not left this machine.
//
// # At most once
//
// A key makes a request repeatable only at a server that dedupes by it. For other servers there is
// [Transport.AtMostOnce]: a request whose method is not safe is sent again only if the server has provably not looked at it. A
// call of package lease without SafeToRepeat or DedupedFor says so itself, by its context.
//
// # Connections that have died
//
// A NAT or a load balancer forgets idle connections, and the next request on one of them
// is answered with a reset. A kept-alive connection that ends without one byte of an answer
// says nothing about the server: what may be repeated is sent again at once. That is
// counted and observed, but it is no attempt in the sense of Policy.Attempts, and the
// budget does not pay for it. After 8 such connections in one call all idle ones of Base are
// closed, and after 100 they are failures like any other. Over HTTP/2, where a connection
// is lost by all its requests together, those that did not have it for themselves pay a
// tenth of a retry.
//
// # Bodies
//
// The body of a request is read again by its GetBody, which [http.NewRequest] sets for
// the usual readers. Without one, up to 64 KiB of a known length are recorded while they are
// sent, however slowly they come; otherwise the request is sent once, never again with half a body.
//
// A response is the caller's once its header is there, body included: if a download
// breaks off, the caller sees it. Only the answer to a request with a key is read first
// if it is short ([Transport.Buffer]): the effect is made, and the same key gets the
// same answer again, whole.
package retryhttp
