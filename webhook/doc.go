// Package webhook verifies and receives webhooks, and applies each event once. The package also sends a
// service's own webhooks to the endpoints of its tenants.
//
// # Receive
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing"})
//	mux.Handle("POST /hooks/stripe", webhook.Receive(in, webhook.Stripe(secret, oldSecret), book))
//	go in.Run(ctx, book) // work without a request: redriven dead letters, expired rows
//
//	answer                    the event
//	200 {"outcome":"..."}     is applied, now or before (duplicate), or a dead letter
//	401                       is not signed with a secret, or its timestamp is too far from now; nothing of it is kept
//	400                       has no ID, although its sender has IDs; nothing is kept
//	405                       was not sent with POST
//	408                       was cut in transit: send it again
//	413                       is larger than inbox.Config.MaxPayload; its body is not kept
//	500                       is not applied: send it again, after Retry-After
//	503                       is not applied, or it is not known because the database was not reached: send it again
//
// An answer with a status other than 200 has a problem document (RFC 9457) as its body. No answer reveals the
// error of the handler, or why a signature is wrong.
//
// # Verify without an inbox
//
//	m, err := webhook.Standard(secrets...).Verify(r.Header, body)
//
// [Standard] verifies Standard Webhooks. The functions [Stripe], [GitHub], [Shopify] and [Slack] return verifiers for
// the webhooks that these companies send. A [Scheme] verifies the HMAC signatures of other senders. The form of a
// secret does not show its scheme, so you choose the scheme: [Standard] decodes a secret that begins with "whsec_",
// but [Stripe] uses such a secret as the key without decoding it. For each request, the verifier computes one
// signature for each secret, and compares these signatures with the signature of the request in constant time. A
// signature covers the raw bytes of the body, and nothing is parsed before the signature is verified.
//
// If each tenant has its own secret in a database, use httpbroker.ReceiverConfig.Verify, and make the verifier
// in the function Verify.
//
// # Send
//
//	hooks := webhook.New(s, webhook.Config{Encrypter: e})
//	endpoint, secret, err := hooks.Endpoints().Create(ctx, webhook.Endpoint{Tenant: "acme", URL: url, Types: []string{"refund.*"}})
//	err = hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "refund.succeeded", Data: body}) // commits with the refund
//	mux.Handle("/webhooks/", authenticate(hooks.Handler("/webhooks", tenantOf)))                   // tenants manage their own endpoints
//
// Each delivery is signed by the scheme of Standard Webhooks, and has the same ID in all attempts. [NewSigner]
// signs webhooks that a service sends without [Hooks]. Package ssrf, in this folder, guards an HTTP client whose
// URLs are chosen by tenants.
package webhook
