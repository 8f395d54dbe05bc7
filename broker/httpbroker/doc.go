// Package httpbroker delivers messages of an outbox to a service by HTTP, and receives them there: webhooks.
//
// # Publisher
//
// Each message is one POST with the payload as its body. It is a CloudEvent 1.0 in binary mode:
// the headers ce-id, ce-type, ce-source, ce-time, ce-partitionkey (the key) and ce-sequence (its number within topic and
// key) describe it, traceparent carries the trace, and Once-Topic the topic. The header Idempotency-Key is the ID of the
// message, the same in every delivery: a receiver with package oncehttp applies each message once. (The marker of a message
// that was skipped is another request: its key ends with ".skipped".)
//
// Requests of one topic and key follow each other, each after the answer to the one before. Those of other keys are on
// their way at the same time.
//
//	answer                                      the message
//	2xx                                         is delivered
//	400, 413, 415, 422, 431                     is refused for good: [retry.Permanent]
//	502, 503, 504, and 429 with Retry-After     waits, as all others of its topic do: [outbox.Unavailable]
//	no connection, a reset one, bad certificate waits, as all others of its topic do: [outbox.Unavailable]
//	all others, also redirects; no answer       is tried again by the policy of the relay
//
// 401, 403, 404 and 410 are tried again, because they are errors of the setup, and no message is lost by
// the time that a person needs to mend it.
//
// # What the promise needs
//
// [Receiver] does what follows. Any other receiver answers 2xx only after it has stored the message durably. It may receive a
// message more than once and, where the answer was lost, after later ones of the key: it drops those with an Idempotency-Key that
// it knows, or with a ce-sequence that is not greater than the last one of the topic and key.
//
// # Receiver
//
// A receiver applies each event once, through an inbox: a CloudEvent 1.0 in binary mode or in structured
// mode (JSON), or any POST with an Idempotency-Key, which is its ID within its topic.
//
//	mux.Handle("POST /events/{topic}", authenticate(httpbroker.Receiver(in, book, httpbroker.ReceiverConfig{})))
//	go in.Run(ctx, book) // what needs no request: parked messages, redriven dead letters, expired rows
//
//	answer                    the message
//	200 {"outcome":"..."}     is applied, now or before (duplicate, stale), or kept: parked or a dead letter; several: {"outcomes":["...", ...]}
//	204                       is none: the decoder finds nothing to apply in the body
//	401                       is not verified ([ReceiverConfig.Verify]); nothing of it is kept
//	400                       is no event; a dead letter of class "malformed" if it has an ID
//	405                       was not sent with POST
//	408                       was cut on its way: send it again
//	413                       is larger than inbox.Config.MaxPayload; a dead letter of class "too_large" if it has an ID and
//	                          needs no Verify
//	500                       is not applied: send it again, after Retry-After
//	503                       is not applied, or it is not known because the database was not reached: send it again
//
// Answers other than 200 are problems of RFC 9457. They do not tell what the handler said: the observer of the inbox does.
//
// Package webhook receives those of Stripe, GitHub, Shopify, Slack and Standard Webhooks. Other webhooks are received with [ReceiverConfig.Verify], which checks the signature of the raw bytes, and
// [ReceiverConfig.Decode], which makes messages of them. A secret that is asked of a database may be missing for a moment: return
// [retry.After] then, and the sender comes again.
//
// Without Verify, put authentication around a receiver. It believes what a sender says of source, ID and key, and who can send to it can
// have letters stored. If several tenants send to it, [ReceiverConfig.Source] keeps their messages apart. To bound how many requests wait for the database at once, put the middleware of package limit around
// it: it answers 429 or 503 with Retry-After, which [Publisher] and other senders obey.
// [http.Server.Shutdown] drains a receiver: it waits for the requests that are being served.
//
// A sender should wait longer for an answer than the handler may take: when it gives up, the transaction is rolled
// back. A relay should try more often than the inbox: then the inbox decides when a message is given up, and
// the key goes on.
//
// Authorization, signatures, API keys, cookies and headers of proxies are not headers of the message.
package httpbroker
