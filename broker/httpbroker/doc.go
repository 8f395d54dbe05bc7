// Package httpbroker delivers messages of an outbox to a service by HTTP. The package also receives messages of an outbox and other webhooks by
// HTTP, and applies each received message once, through an inbox.
//
// # Publisher
//
// Each message is one POST whose body is the payload. The request is a CloudEvent 1.0 in binary mode. The headers of the request are ce-id, ce-type,
// ce-source, ce-time, ce-partitionkey (the ordering key), ce-sequence (the number of the message within its topic and key), traceparent (the trace)
// and Once-Topic (the topic). The header Idempotency-Key is the ID of the message. The ID of a message is the same in every delivery, so a receiver
// that uses package oncehttp applies each message once. (If an operator has skipped a message, the publisher sends a marker instead of the message:
// a request whose Idempotency-Key ends with ".skipped".)
//
// If two messages have the same topic and key, the publisher sends the second message only after the first message was answered. Messages with
// different keys are sent concurrently.
//
//	answer                                      the message
//	2xx                                         is delivered
//	400, 413, 415, 422, 431                     is refused for good: [retry.Permanent]
//	502, 503, 504, and 429 with Retry-After     waits with all messages of its topic: [outbox.Unavailable]
//	no connection, reset, bad certificate       waits with all messages of its topic: [outbox.Unavailable]
//	any other answer (a redirect); no answer    is tried again by the policy of the relay
//
// After 401, 403, 404 and 410 a message is tried again, because these answers usually mean an error in the configuration. So no message is lost
// while the configuration is wrong.
//
// # Requirements for receivers
//
// The function [Receiver] meets the requirements of this section. A receiver of your own must answer 2xx only after it has stored the message
// durably. A receiver may get a message more than once. If the answer to a message was lost, the receiver may get this message again, even after
// later messages of the same key. So a receiver must drop a message whose Idempotency-Key it has seen before, or whose ce-sequence is not greater
// than the ce-sequence of the last message with the same topic and key.
//
// # Receiver
//
// The handler that the function [Receiver] returns applies each message once, through an inbox. A message is a CloudEvent 1.0 in binary mode or in
// structured mode (JSON), or any POST with an Idempotency-Key, which becomes the ID of the message within its topic.
//
//	mux.Handle("POST /events/{topic}", authenticate(httpbroker.Receiver(in, book, httpbroker.ReceiverConfig{})))
//	go in.Run(ctx, book) // applies parked messages and redriven dead letters, and deletes expired rows
//
//	answer                    the message
//	200 {"outcome":"..."}     is applied, now or earlier (duplicate, stale), or stored (parked until an earlier message arrives, or as a dead letter).
//	                          For several messages: {"outcomes":["...", ...]}
//	204                       is empty: the body has nothing to apply
//	401                       is not verified ([ReceiverConfig.Verify]); no data of the message is stored
//	400                       is not an event; if the message has an ID, the message becomes a dead letter of class "malformed"
//	405                       was not sent with POST
//	408                       has not arrived completely: send it again
//	413                       is larger than inbox.Config.MaxPayload; if the message has an ID and Verify is nil, the message becomes a
//	                          dead letter of class "too_large"
//	500                       is not applied: send it again, after Retry-After
//	503                       is not applied, or the outcome is unknown because the database cannot be reached: send it again
//
// The body of an answer with 4xx or 5xx is a problem document (RFC 9457). The problem document does not contain the error of the handler. The
// observer of the inbox receives the error of the handler.
//
// Package webhook receives webhooks of Stripe, GitHub, Shopify, Slack and Standard Webhooks. To receive other webhooks, set [ReceiverConfig.Verify]
// and [ReceiverConfig.Decode]. The function Verify checks the signature of the raw body, and the function Decode converts the raw body to messages.
// If Verify reads a secret from a database, and the database does not answer, Verify should return an error that [retry.After] has made: then the
// receiver answers 503, and the sender tries again.
//
// If you do not set Verify, put authentication around the receiver, because any sender can fill the table of dead letters. The receiver trusts the
// source, the ID and the key that the sender has chosen. If several tenants send to the receiver, set [ReceiverConfig.Source] to separate their
// messages. To limit the number of requests that wait for the database, put the Middleware of a limit.Limiter around the receiver. The middleware
// of the limiter answers 429 or 503 with Retry-After. [Publisher] and other senders wait for the time in Retry-After before they send the message
// again. [http.Server.Shutdown] waits for the running requests of a receiver.
//
// A sender should wait for an answer longer than a call of the handler may take, because the transaction of the handler is rolled back when the
// sender disconnects. Allow the relay of the outbox more attempts than the inbox, so that the inbox decides when a message is given up. After
// the inbox has given up a message, the inbox applies the later messages of the same key.
//
// Most headers of a request become headers of the message. Headers with authorization, signatures, API keys
// or cookies, and headers that proxies add, do not become headers of the message.
package httpbroker
