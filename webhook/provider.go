package webhook

import (
	"encoding/json"
	"time"
)

const day = 24 * time.Hour

// Stripe returns a verifier of Stripe's webhooks. A secret is that of the endpoint with its "whsec_": its text is the key, other than with [Standard]. The ID is that of
// the event. Stripe tries for 3 days, promises no order, and a person can send an event again for 30 days.
func Stripe(secrets ...string) *Verifier {
	return provider("Stripe", secrets, Scheme{
		Source: "stripe", Header: "Stripe-Signature", Prefix: "v1=", Signed: "{timestamp}.{body}", Timestamp: "t=",
		ID: ".id", Type: ".type", Redelivery: 3 * day,
	})
}

// GitHub returns a verifier of GitHub's webhooks (X-Hub-Signature-256). Neither the ID, which is that of the delivery, nor the type nor a time is signed: a sender that has one
// request can send it again under another ID, and inbox.Config.ReportSameBody tells. The type "ping" is that of a new webhook. GitHub does not try again by itself; a person
// can, for 3 days, with the same ID.
func GitHub(secrets ...string) *Verifier {
	return provider("GitHub", secrets, Scheme{
		Source: "github", Header: "X-Hub-Signature-256", Prefix: "sha256=",
		ID: "X-GitHub-Delivery", Type: "X-GitHub-Event", Redelivery: 3 * day,
	})
}

// Shopify returns a verifier of Shopify's webhooks (X-Shopify-Hmac-Sha256). A secret is the client secret of the app. The ID is X-Shopify-Webhook-Id; neither it nor the
// topic nor the shop nor a time is signed, as with [GitHub]. X-Shopify-Event-Id is no ID here: deliveries of several topics share it. Shopify tries for 4 hours.
func Shopify(secrets ...string) *Verifier {
	return provider("Shopify", secrets, Scheme{
		Source: "shopify", Header: "X-Shopify-Hmac-Sha256", Encoding: Base64,
		ID: "X-Shopify-Webhook-Id", Type: "X-Shopify-Topic", Redelivery: 4 * time.Hour,
	})
}

// Slack returns a verifier of Slack's Events API. A secret is the signing secret of the app. The ID is event_id, and the type that of the inner event. [Receive] answers the
// url_verification that Slack sends to a new endpoint. Slash commands and interactions have no ID: verify them with [Verifier.Verify].
func Slack(secrets ...string) *Verifier {
	v := provider("Slack", secrets, Scheme{
		Source: "slack", Header: "X-Slack-Signature", Prefix: "v0=", Signed: "v0:{timestamp}:{body}", Timestamp: "X-Slack-Request-Timestamp",
		ID: ".event_id", Type: ".event.type", Redelivery: day + time.Hour,
	})
	v.form.answer = slackChallenge
	return v
}

// slackChallenge returns the answer to a url_verification; nil to all else.
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
