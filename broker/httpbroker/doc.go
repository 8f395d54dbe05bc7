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
// Requests of one topic and key follow each other, each after the answer to the one before. Requests of different keys are on their way at the same
// time.
//
//	answer                                      the message
//	2xx                                         is delivered
//	400, 413, 415, 422, 431                     is refused for good: [retry.Permanent]
//	502, 503, 504, and 429 with Retry-After     waits, and so do all others of its topic: [outbox.Unavailable]
//	no connection, a reset one, bad certificate waits, and so do all others of its topic: [outbox.Unavailable]
//	all others, also redirects; no answer       is tried again by the policy of the relay
//
// 401, 403, 404 and 410 are tried again, because they are errors of the setup. No message is lost while a person corrects it.
//
// # What the promise needs
//
// [Receiver] does all of this. Any other receiver must answer 2xx only after it has stored the message durably. It may receive a message more than
// once and, after a lost answer, after later messages of the key: it must drop a message with a known Idempotency-Key, or with a ce-sequence that is
// not greater than the last one of the topic and key.
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
//	204                       is empty: the decoder finds nothing to apply in the body
//	401                       is not verified ([ReceiverConfig.Verify]); nothing of it is kept
//	400                       is not an event; a dead letter of class "malformed" if it has an ID
//	405                       was not sent with POST
//	408                       was cut on its way: send it again
//	413                       is larger than inbox.Config.MaxPayload; a dead letter of class "too_large" if it has an ID and
//	                          needs no Verify
//	500                       is not applied: send it again, after Retry-After
//	503                       is not applied, or it is not known because the database was not reached: send it again
//
// Answers other than 200 are problems of RFC 9457. They do not have the error of the handler: the observer of the inbox gets it.
//
// Package webhook receives webhooks of Stripe, GitHub, Shopify, Slack and Standard Webhooks. For other webhooks set [ReceiverConfig.Verify], which
// checks the signature of the raw bytes, and [ReceiverConfig.Decode], which makes messages of them. If a secret cannot be read from a database for a
// moment, return [retry.After], and the sender comes again.
//
// Without Verify, put authentication around a receiver. It trusts the sender's source, ID and key, and each sender can fill the table of dead
// letters. If several tenants send to it, [ReceiverConfig.Source] separates their messages. To bound how many requests wait for the database at once,
// put the middleware of package limit around it: it answers 429 or 503 with Retry-After, which [Publisher] and other senders obey.
// [http.Server.Shutdown] drains a receiver: it waits for the running requests.
//
// A sender should wait longer for an answer than the handler may take: when it gives up, the transaction is rolled back. A relay should try more
// often than the inbox: then the inbox decides when a message is given up, and the key goes on.
//
// Authorization, signatures, API keys, cookies and headers of proxies are not headers of the message.
package httpbroker
