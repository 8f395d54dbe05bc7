package stripetest_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	stripe "github.com/stripe/stripe-go/v85"

	"github.com/oncelib/once/cmd/once/internal/payments"
)

// TestWhatIsKeptWithAnObject: metadata, the reason of a refund and the description of a
// charge come back with it, again with a replay, and later.
func TestWhatIsKeptWithAnObject(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{}, func(g *service) {
		t, ctx, c := g.T, g.Context(), g.client(account)
		full := map[string]string{}
		for i := range 50 {
			full[fmt.Sprintf("%0*d", 40, i)] = strings.Repeat("é", 500)
		}
		full[strings.Repeat("ü", 40)] = "two\nlines, \\ and \"quoted\" <&> $1 ?"
		delete(full, fmt.Sprintf("%0*d", 40, 0))
		made, err := c.V1Charges.Create(ctx, &stripe.ChargeCreateParams{
			Amount: stripe.Int64(5000), Currency: stripe.String("eur"), Description: stripe.String("three books"), Metadata: full,
		})
		must(t, err)
		charge, err := c.V1Charges.Retrieve(ctx, made.ID, nil)
		must(t, err)
		for _, got := range []*stripe.Charge{made, charge} {
			if !maps.Equal(got.Metadata, full) || got.Description != "three books" {
				t.Errorf("%+v", got)
			}
		}
		params := func(order string, reason string) *stripe.RefundCreateParams {
			p := &stripe.RefundCreateParams{
				Charge: &made.ID, Amount: stripe.Int64(refund), Reason: stripe.String(reason),
				Metadata: map[string]string{"order": order, "clerk": ""}, // an empty one is none
			}
			p.SetIdempotencyKey("refund of order 17")
			return p
		}
		const why = string(stripe.RefundReasonRequestedByCustomer)
		first, err := c.V1Refunds.Create(ctx, params("17", why))
		must(t, err)
		again, err := c.V1Refunds.Create(ctx, params("17", why))
		must(t, err)
		later, err := c.V1Refunds.Retrieve(ctx, first.ID, nil)
		must(t, err)
		for _, got := range []*stripe.Refund{first, again, later} {
			if got.ID != first.ID || !maps.Equal(got.Metadata, map[string]string{"order": "17"}) || string(got.Reason) != why {
				t.Errorf("%+v", got)
			}
		}
		if again.LastResponse.Header.Get("Idempotent-Replayed") != "true" {
			t.Error("not replayed")
		}
		for _, other := range []*stripe.RefundCreateParams{params("18", why), params("17", string(stripe.RefundReasonDuplicate))} {
			_, err = c.V1Refunds.Create(ctx, other)
			wants(t, err, http.StatusBadRequest, stripe.ErrorTypeIdempotency, "", "")
		}
		if n := g.count("select count(*) from refund"); n != 1 {
			t.Errorf("%d refunds", n)
		}
	})
}

// TestLimitsOfMetadata: beyond them nothing is done, and the key stays unused.
func TestLimitsOfMetadata(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{}, func(g *service) {
		t, ctx, c := g.T, g.Context(), g.client(account)
		charge, err := c.V1Charges.Create(ctx, &stripe.ChargeCreateParams{Amount: stripe.Int64(5000), Currency: stripe.String("eur")})
		must(t, err)
		many := map[string]string{}
		for i := range 51 {
			many[fmt.Sprint(i)] = "x"
		}
		long, huge := strings.Repeat("k", 41), map[string]string{}
		for i := range 50 {
			huge[fmt.Sprint(i)] = strings.Repeat("x", 1<<14)
		}
		for _, wrong := range []struct {
			metadata map[string]string
			reason   *string
			status   int
			param    string
		}{
			{many, nil, http.StatusBadRequest, "metadata"},
			{map[string]string{long: "x"}, nil, http.StatusBadRequest, "metadata[" + long + "]"},
			{map[string]string{"a": strings.Repeat("é", 501)}, nil, http.StatusBadRequest, "metadata[a]"},
			{map[string]string{"a[b]": "x"}, nil, http.StatusBadRequest, "metadata[a[b]]"},
			{map[string]string{"": "x"}, nil, http.StatusBadRequest, "metadata[]"},
			{map[string]string{"a\x00": "x"}, nil, http.StatusBadRequest, "metadata[a\x00]"},
			{map[string]string{"a": "\x00"}, nil, http.StatusBadRequest, "metadata[a]"},
			{map[string]string{"a": "\xff"}, nil, http.StatusBadRequest, "metadata[a]"},
			{nil, stripe.String("because"), http.StatusBadRequest, "reason"},
			{huge, nil, http.StatusRequestEntityTooLarge, ""},
		} {
			of := &stripe.ChargeCreateParams{Amount: stripe.Int64(1), Currency: stripe.String("eur"), Metadata: wrong.metadata}
			p := &stripe.RefundCreateParams{Charge: &charge.ID, Metadata: wrong.metadata, Reason: wrong.reason}
			of.SetIdempotencyKey("charge")
			p.SetIdempotencyKey("refund")
			if wrong.metadata != nil {
				_, err := c.V1Charges.Create(ctx, of)
				wants(t, err, wrong.status, stripe.ErrorTypeInvalidRequest, "", wrong.param)
			}
			_, err := c.V1Refunds.Create(ctx, p)
			wants(t, err, wrong.status, stripe.ErrorTypeInvalidRequest, "", wrong.param)
		}
		if n := g.count("select count(*) from charge") + g.count("select count(*) from refund"); n != 1 {
			t.Errorf("%d charges and refunds", n)
		}
		of := &stripe.ChargeCreateParams{Amount: stripe.Int64(1), Currency: stripe.String("eur")}
		of.SetIdempotencyKey("charge")
		_, err = c.V1Charges.Create(ctx, of)
		must(t, err)
		p := &stripe.RefundCreateParams{Charge: &charge.ID}
		p.SetIdempotencyKey("refund")
		_, err = c.V1Refunds.Create(ctx, p)
		must(t, err)
	})
}

// TestAChargeIsRefusedUnderItsKey: a charge is declared before the database is asked whether its
// key was used, and what is wrong with it is not told in place of that.
func TestAChargeIsRefusedUnderItsKey(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{}, func(g *service) {
		t, ctx, c := g.T, g.Context(), g.client(account)
		params := func(amount int64) *stripe.ChargeCreateParams {
			p := &stripe.ChargeCreateParams{Amount: &amount, Currency: stripe.String("eur")}
			p.SetIdempotencyKey("k")
			return p
		}
		_, err := c.V1Charges.Create(ctx, params(5000))
		must(t, err)
		_, err = c.V1Charges.Create(ctx, params(0))
		wants(t, err, http.StatusBadRequest, stripe.ErrorTypeIdempotency, "", "")
	})
}
