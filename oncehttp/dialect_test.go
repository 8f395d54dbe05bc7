package oncehttp_test

import (
	"testing"
	"time"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store"
)

// Where the cells of the table below are from.
const (
	stripeAPI    = "docs.stripe.com/api/idempotent_requests"
	stripeErrors = "docs.stripe.com/error-low-level"
	stripeV2     = "docs.stripe.com/api-v2-overview#idempotency"
	stripeGo     = "stripe-go v85: stripe.go, params.go, error.go"
	stripeNode   = "stripe-node: _defaultIdempotencyKey"
	ruby503      = "github.com/stripe/stripe-ruby/issues/503"
	ruby598      = "github.com/stripe/stripe-ruby/issues/598"
	stripity564  = "github.com/code-corps/stripity_stripe/issues/564"
	stripeWords  = "answers that programs match: activemerchant, WooCommerce's Stripe plug-in"
	ruby431      = "github.com/stripe/stripe-ruby/issues/431"
	ours         = "our own choice: nothing public says it"
	playbook     = "the playbook: 409 on mismatch, error_code, DELETE keyed, canonical hash"
	asDefault    = "as the default preset"
)

// cell is one thing that a dialect does, and the source that says so.
type cell struct {
	what   string
	source string
	check  func(t *testing.T, d dialect)
}

const (
	hint     = "Stripe-Should-Retry"
	idemType = "error.type"
	idem     = "idempotency_error"
	invalid  = "invalid_request_error"
	message  = "error.message"
)

var stripeV1Cells = []cell{
	{"POST carries a key", stripeNode, keyed("POST")},
	{"kept for 24 hours", stripeAPI, kept(24 * time.Hour)},
	{"success is replayed", stripeAPI, replays(200, 1)},
	{"400 of an endpoint is replayed", stripeErrors, replays(400, 0)},
	{"402 is replayed", stripeAPI, replays(402, 0)},
	{"404 is replayed", stripeAPI, replays(404, 0)},
	{"424 is replayed", stripeAPI, replays(424, 0)},
	{"500 is replayed", stripeAPI, replays(500, 0)},
	{"503 is replayed", stripeAPI, replays(503, 0)},
	{"401, 409 and 429 are not stored", stripeErrors, executesAgain(401, 409, 429)},
	{"403, 408, 423 and 425 are not stored", ours, executesAgain(403, 408, 423, 425)},
	{"mismatch is 400", ruby503, mismatch(400, "/x", idemType, idem, hint, "false")},
	{"a mismatch is worded as programs match it", stripeWords, mismatch(400, "/x", message,
		"Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than 'k' if you meant to execute a different request.")},
	{"parameters are compared, not bytes", stripeAPI, byParameters},
	{"another endpoint is a mismatch, another account is not", ruby598, mismatch(400, "/y", idemType, idem, hint, "false")},
	{"in flight is 409", ruby431, inFlight(409, idemType, invalid, "error.code", "idempotency_key_in_use", hint, "true")},
	{"in flight has a doc_url and is worded as programs match it", stripity564, inFlight(409, "error.doc_url", "https://stripe.com/docs/error-codes/idempotency-key-in-use", message,
		"There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through): k. Please try again later.")},
	{"a conflict is a lock timeout: 429", stripeGo, fails(store.KindRetry, 429, "error.code", "lock_timeout", "error.doc_url", "https://stripe.com/docs/error-codes/lock-timeout", hint, "true")},
	{"the store is away: 503", ours, fails(store.KindUnavailable, 503, idemType, "api_error", hint, "true")},
	{"a handler that fails is executed again", ours, failsInside},
	{"a stored error is not to be retried", stripeGo, final(500, "false")},
	{"a refused card is not to be retried", stripeGo, final(402, "false")},
	{"a success gives no hint", ours, final(200, "")},
	{"a key may have 255 bytes", stripeAPI, keyOf(255, 200)},
	{"a key of 256 bytes is refused", stripeAPI, keyOf(256, 400)},
	{"a key is opaque: quotation marks", ours, sameKey(`"k"`, "k", false)},
	{"a key is opaque: commas and semicolons", ours, sameKey("order;17,b", "order;17,b", true)},
	{"the key comes back", stripeGo, echoes},
}

var dialects = map[string]struct {
	preset dialect
	cells  []cell
}{
	"stripe-v1": {stripe.V1, stripeV1Cells},
	"stripe-v2": {stripe.V2, []cell{
		{"POST and DELETE carry a key", stripeNode, keyed("POST DELETE")},
		{"a DELETE is replayed", stripeNode, deletes},
		{"kept for 30 days", stripeErrors, kept(30 * 24 * time.Hour)},
		{"success is replayed", stripeV2, replays(200, 1)},
		{"failures are executed again", stripeV2, executesAgain(400, 402, 404, 409, 424, 429, 500, 503)},
		{"mismatch is 400", ours, mismatch(400, "/x", idemType, idem)},
		{"another endpoint is a mismatch", ours, mismatch(400, "/y", idemType, idem)},
		{"parameters are compared, not bytes", ours, byParameters},
		{"in flight is 409", stripeGo, inFlight(409, idemType, invalid, hint, "true")},
		{"the key comes back", stripeGo, echoes},
	}},
	"refund-playbook": {refundplaybook.Preset, []cell{
		{"reversals by DELETE carry a key", playbook, keyed("POST PATCH DELETE")},
		{"a DELETE is replayed", playbook, deletes},
		{"mismatch is 409", playbook, mismatch(409, "/x", "error_code", "CONFLICT.idempotency.payload_mismatch")},
		{"in flight is 409, too, and another code", playbook, inFlight(409, "error_code", string(oncehttp.ProblemInFlight))},
		{"every problem has its code in a header", playbook, errorCode},
		{"JSON is compared by value", playbook, byValue},
		{"kept as long as the engine says", asDefault, kept(72 * time.Hour)},
		{"success is replayed", asDefault, replays(201, 1)},
		{"422 is replayed", asDefault, replays(422, 0)},
		{"what is not final is executed again", asDefault, executesAgain(401, 403, 408, 409, 423, 425, 429, 500, 503)},
		{"quoted and bare keys are the same", asDefault, sameKey(`"k"`, "k", true)},
	}},
}

// TestDialectsCellByCell: each cell of the table, by itself.
func TestDialectsCellByCell(t *testing.T) {
	for name, d := range dialects {
		if got := d.preset().Name; got != name {
			t.Errorf("%s is called %q", name, got)
		}
		if d.preset().Verdicts[2] = oncehttp.VerdictDiscard; d.preset().Verdicts[2] != oncehttp.VerdictCommit {
			t.Errorf("%s is not fresh", name)
		}
		for _, c := range d.cells {
			t.Run(name+"/"+c.what, func(t *testing.T) {
				c.check(t, d.preset)
				if t.Failed() {
					t.Logf("source: %s", c.source)
				}
			})
		}
	}
}
