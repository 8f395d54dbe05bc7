package webhook

import (
	"encoding/json"
	"time"
)

const day = 24 * time.Hour

// Stripe returns a verifier of Stripe's webhooks. Each of secrets is the secret of an endpoint, including the
// beginning "whsec_": the whole text is the key of the HMAC, and is not decoded, unlike in [Standard]. The ID of
// a message is the ID of Stripe's event. Stripe tries to deliver an event for 3 days and promises no order, and a
// person can send an event again for 30 days.
func Stripe(secrets ...string) *Verifier {
	return provider("Stripe", secrets, Scheme{
		Source: "stripe", Header: "Stripe-Signature", Prefix: "v1=", Signed: "{timestamp}.{body}", Timestamp: "t=",
		ID: ".id", Type: ".type", Redelivery: 3 * day,
	})
}

// GitHub returns a verifier of GitHub's webhooks (X-Hub-Signature-256). The ID of a message is the ID of GitHub's
// delivery. The signature covers neither the ID, nor the type, nor a time: an attacker who has a copy of a
// request can send the copy again under another ID. The setting inbox.Config.ReportSameBody detects a copy that
// was sent under another ID. GitHub sends an event of the type "ping" when a webhook is created. GitHub does not
// retry automatically; a person can redeliver an event for 3 days, with the same ID.
func GitHub(secrets ...string) *Verifier {
	return provider("GitHub", secrets, Scheme{
		Source: "github", Header: "X-Hub-Signature-256", Prefix: "sha256=",
		ID: "X-GitHub-Delivery", Type: "X-GitHub-Event", Redelivery: 3 * day,
	})
}

// Shopify returns a verifier of Shopify's webhooks (X-Shopify-Hmac-Sha256). Each of secrets is the client secret
// of a Shopify app. The ID of a message is the header X-Shopify-Webhook-Id. The signature covers neither the ID,
// nor the topic, nor the shop, nor a time. So an attacker who has a copy of a request can send the copy again
// under another ID. X-Shopify-Event-Id is not used as the ID, because deliveries of several topics have the same
// X-Shopify-Event-Id. Shopify tries to deliver an event for 4 hours.
func Shopify(secrets ...string) *Verifier {
	return provider("Shopify", secrets, Scheme{
		Source: "shopify", Header: "X-Shopify-Hmac-Sha256", Encoding: Base64,
		ID: "X-Shopify-Webhook-Id", Type: "X-Shopify-Topic", Redelivery: 4 * time.Hour,
	})
}

// Slack returns a verifier of Slack's Events API. Each of secrets is the signing secret of a Slack app. The ID of
// a message is the field event_id, and the type of a message is the type of the inner event. [Receive] answers
// the url_verification request that Slack sends to a new endpoint. Slash commands and interactions have no ID:
// verify them with [Verifier.Verify].
func Slack(secrets ...string) *Verifier {
	v := provider("Slack", secrets, Scheme{
		Source: "slack", Header: "X-Slack-Signature", Prefix: "v0=", Signed: "v0:{timestamp}:{body}", Timestamp: "X-Slack-Request-Timestamp",
		ID: ".event_id", Type: ".event.type", Redelivery: day + time.Hour,
	})
	v.form.answer = slackChallenge
	return v
}

// slackChallenge returns the answer to a url_verification request of Slack, and nil for every other request.
func slackChallenge(body []byte) []byte {
	if member(body, "type") != "url_verification" {
		return nil
	}
	text, err := json.Marshal(map[string]string{"challenge": member(body, "challenge")})
	if err != nil {
		return nil
	}
	return text
}

func provider(name string, secrets []string, s Scheme) *Verifier {
	f, err := s.form()
	if err != nil {
		panic("webhook: " + name + ": " + err.Error())
	}
	f.keys = keysOf(name, s.Hash, secrets)
	return &Verifier{Source: s.Source, form: f}
}
