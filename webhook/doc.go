// Package webhook verifies and receives webhooks, and applies each event once. The package also sends the
// webhooks of your own service to the URLs of your tenants.
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
// The function [Standard] returns a verifier for the public specification Standard Webhooks. The functions [Stripe],
// [GitHub], [Shopify] and [Slack] return verifiers for the webhooks that these companies send. A [Scheme] verifies
// the HMAC signatures of senders for which this package has no function. You must choose the right function
// yourself, because the text of a secret does not show its sender: [Standard] decodes a secret that begins with
// "whsec_", but [Stripe] uses the same text as the key without decoding the text. For each request, the verifier
// computes one signature for each secret, and compares these signatures with the signature of the request in
// constant time. A signature covers the raw bytes of the body, and no part of the body is parsed before the
// signature is verified.
//
// If your database has another secret for each tenant, receive the webhooks with package httpbroker, and make the
// verifier in the function that you set as httpbroker.ReceiverConfig.Verify.
//
// # Send
//
//	hooks := webhook.New(s, webhook.Config{Encrypter: e})
//	endpoint, secret, err := hooks.Endpoints().Create(ctx, webhook.Endpoint{Tenant: "acme", URL: url, Types: []string{"refund.*"}})
//	err = hooks.Send(ctx, tx, webhook.Event{Tenant: "acme", Type: "refund.succeeded", Data: body}) // commits with the refund
//	mux.Handle("/webhooks/", authenticate(hooks.Handler("/webhooks", tenantOf)))                   // tenants manage their own endpoints
//
// Each delivery of a webhook is signed as Standard Webhooks specifies, and all attempts of a delivery send the
// same ID. If a service sends webhooks without the type [Hooks], the service can sign these webhooks with
// [NewSigner]. Package webhook/ssrf guards an HTTP client that sends requests to URLs which tenants have chosen.
package webhook
