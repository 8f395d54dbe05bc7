package stripetest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	stripe "github.com/stripe/stripe-go/v85"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/oncehttp"
	dialect "github.com/oncelib/once/oncehttp/stripe"
)

// The storm: so many orders, each charged and refunded by one of so many clients, while
// every fourth answer is lost.
const (
	orders  = 24
	clients = 4
	every   = 4 // with 3 it would hit the charges alone
	refund  = 1200
)

// storm has all orders charged and refunded, with the keys that stripe-go makes.
func (g *service) storm() {
	g.Helper()
	if err := g.stormed(); err != nil {
		g.Error(err)
	}
}

// stormed is storm, and returns the first error that a client has met.
func (g *service) stormed() (first error) {
	g.Helper()
	var mu sync.Mutex
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
	}
	lost := g.proxy.Arm(faultnet.DropEvery(every, "}\n"))
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			// On a connection that was used before net/http sends again what has a key, and
			// stripe-go does not hear of it. On a new one the retry is that of stripe-go.
			c := g.over(account, &http.Transport{DialContext: g.proxy.DialContext, DisableKeepAlives: i%2 == 0})
			for range orders / clients {
				charge, err := c.V1Charges.Create(g.Context(), &stripe.ChargeCreateParams{
					Amount: stripe.Int64(5000), Currency: stripe.String("eur"), Source: &stripe.PaymentSourceSourceParams{Token: stripe.String("tok_visa")},
				})
				if err != nil {
					failed(err)
					return
				}
				re, err := c.V1Refunds.Create(g.Context(), &stripe.RefundCreateParams{Charge: &charge.ID, Amount: stripe.Int64(refund)})
				if err != nil {
					failed(err)
					return
				}
				if re.Charge.ID != charge.ID || re.Amount != refund || re.Status != stripe.RefundStatusSucceeded || re.Currency != "eur" {
					g.Errorf("%+v", re)
				}
			}
		})
	}
	wg.Wait()
	g.proxy.Disarm()
	if n := lost.Count(); n < orders/every || g.repeated() < orders/every {
		g.Errorf("vacuous: %d answers were lost, %d requests repeated", n, g.repeated())
	}
	g.Logf("%d answers lost, %d requests repeated", lost.Count(), g.repeated())
	return first
}

// TestOneRefundStaysOne: whatever stripe-go and net/http send again.
func TestOneRefundStaysOne(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{}, func(g *service) {
		g.storm()
		g.once()
	})
}

// once asks the database whether everything is there once.
func (g *service) once() {
	g.Helper()
	for what, query := range map[string]string{
		"charges":                 "select count(*) from charge",
		"refunds":                 "select count(*) from refund",
		"charges refunded once":   "select count(*) from charge where amount = 5000 and refunded = 1200",
		"charges with one refund": "select count(distinct charge_id) from refund",
		"credits in the ledger":   "select count(*) from ledger_entry where direction = 'credit' and amount = 1200",
		"debits in the ledger":    "select count(*) from ledger_entry where direction = 'debit' and amount = 1200",
	} {
		if n := g.count(query); n != orders {
			g.Errorf("%d %s, want %d", n, what, orders)
		}
	}
}

// TestUnsafeRefundsTwice: the storm is one. With the middleware left out, it refunds
// twice.
func TestUnsafeRefundsTwice(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{Unsafe: true}, func(g *service) {
		g.refundsTwice()
	})
}

// refundsTwice has storms until a charge is refunded twice.
func (g *service) refundsTwice() {
	g.Helper()
	for range 10 { // which answers are lost is chance: in one storm it may be those of charges alone
		if err := g.stormed(); err != nil {
			g.Logf("a client has given up: %v", err) // a refund that was made again and again is refused at last
		}
		if twice := g.count("select count(*) from charge where refunded > 1200"); twice > 0 {
			g.Logf("%d charges refunded twice", twice)
			return
		}
	}
	g.Error("no charge was refunded twice: the storm proves nothing")
}

// TestWhatStripeGoSees: objects, errors of the right Go type, keys and replays.
func TestWhatStripeGoSees(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{}, func(g *service) {
		t, ctx, c := g.T, g.Context(), g.client(account)
		params := func(amount int64) *stripe.ChargeCreateParams {
			p := &stripe.ChargeCreateParams{Amount: &amount, Currency: stripe.String("eur"), Customer: stripe.String("cus_ada")}
			p.SetIdempotencyKey("order;17, first")
			return p
		}
		first, err := c.V1Charges.Create(ctx, params(5000))
		must(t, err)
		again, err := c.V1Charges.Create(ctx, params(5000))
		must(t, err)
		if again.ID != first.ID || string(again.LastResponse.RawJSON) != string(first.LastResponse.RawJSON) ||
			again.LastResponse.Header.Get("Idempotent-Replayed") != "true" || first.LastResponse.Header.Get("Idempotent-Replayed") != "" ||
			first.LastResponse.IdempotencyKey != "order;17, first" || first.LastResponse.RequestID == again.LastResponse.RequestID {
			t.Errorf("%+v, then %+v", first.LastResponse, again.LastResponse)
		}
		if first.Object != "charge" || first.Customer.ID != "cus_ada" || !first.Paid || first.Refunded || first.AmountCaptured != 5000 || first.Created < 1e9 {
			t.Errorf("%+v", first)
		}

		_, err = c.V1Charges.Create(ctx, params(5001))
		var mismatch *stripe.IdempotencyError
		wants(t, err, http.StatusBadRequest, stripe.ErrorTypeIdempotency, "", "")
		if !errors.As(err, &mismatch) {
			t.Errorf("%T", err)
		}
		elsewhere := &stripe.RefundCreateParams{Charge: &first.ID}
		elsewhere.SetIdempotencyKey("order;17, first")
		_, err = c.V1Refunds.Create(ctx, elsewhere) // the key belongs to the account
		wants(t, err, http.StatusBadRequest, stripe.ErrorTypeIdempotency, "", "")

		all, err := c.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: &first.ID})
		must(t, err)
		got, err := c.V1Refunds.Retrieve(ctx, all.ID, nil)
		must(t, err)
		charge, err := c.V1Charges.Retrieve(ctx, first.ID, nil)
		must(t, err)
		if all.Amount != 5000 || got.ID != all.ID || got.Amount != 5000 || !charge.Refunded || charge.AmountRefunded != 5000 {
			t.Errorf("%+v, %+v, %+v", all, got, charge)
		}
		_, err = c.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: &first.ID})
		wants(t, err, http.StatusBadRequest, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeChargeAlreadyRefunded, "")
		_, err = c.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: stripe.String("ch_none")})
		wants(t, err, http.StatusNotFound, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing, "")
		_, err = g.client("sk_test_other").V1Charges.Retrieve(ctx, first.ID, nil)
		wants(t, err, http.StatusNotFound, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeResourceMissing, "")
		_, err = g.client("not a key").V1Charges.Retrieve(ctx, first.ID, nil)
		wants(t, err, http.StatusUnauthorized, stripe.ErrorTypeInvalidRequest, "", "")
		connected := &stripe.RefundCreateParams{Charge: &first.ID}
		connected.SetStripeAccount("acct_other")
		_, err = c.V1Refunds.Create(ctx, connected)
		wants(t, err, http.StatusForbidden, stripe.ErrorTypeInvalidRequest, stripe.ErrorCodeAccountInvalid, "")
	})
}

// TestWhatStripeGoRetries of what the dialect answers: a conflict, but not an operation
// in flight, which is why that should be waited for.
func TestWhatStripeGoRetries(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		problem oncehttp.Problem
		asked   int
	}{
		"idempotency_key_in_use": {oncehttp.Problem{Code: oncehttp.ProblemInFlight, Status: http.StatusConflict, Retryable: true}, 1},
		"lock_timeout":           {oncehttp.Problem{Code: oncehttp.ProblemConflict, Status: http.StatusTooManyRequests, Retryable: true}, 2},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 1 {
				dialect.V1().WriteProblem(w, c.problem)
				return
			}
			_, _ = w.Write([]byte(`{"id":"ch_1"}`))
		}))
		client := stripe.NewClient(account, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
			URL: &server.URL, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		})))
		_, err := client.V1Charges.Create(t.Context(), &stripe.ChargeCreateParams{Amount: stripe.Int64(1)})
		server.Close()
		var e *stripe.Error
		if asked != c.asked || (err == nil) != (c.asked == 2) || err != nil && (!errors.As(err, &e) || string(e.Code) != code) {
			t.Errorf("%s: asked %d times, %v", code, asked, err)
		}
	}
}

// TestValidationLeavesTheKeyUnused: what is refused before it begins is not stored.
func TestValidationLeavesTheKeyUnused(t *testing.T) {
	t.Parallel()
	onBoth(t, payments.Config{}, func(g *service) {
		t, c := g.T, g.client(account)
		for _, wrong := range []struct {
			amount   *int64
			currency *string
			receipt  *string
			code     stripe.ErrorCode
			param    string
		}{
			{nil, stripe.String("eur"), nil, stripe.ErrorCodeParameterMissing, "amount"},
			{stripe.Int64(0), stripe.String("eur"), nil, stripe.ErrorCodeParameterInvalidInteger, "amount"},
			{stripe.Int64(1 << 60), stripe.String("eur"), nil, stripe.ErrorCodeParameterInvalidInteger, "amount"},
			{stripe.Int64(1), nil, nil, stripe.ErrorCodeParameterMissing, "currency"},
			{stripe.Int64(1), stripe.String("euro"), nil, "", "currency"},
			{stripe.Int64(1), stripe.String("eur"), stripe.String("ada@example.org"), stripe.ErrorCodeParameterUnknown, "receipt_email"},
		} {
			p := &stripe.ChargeCreateParams{Amount: wrong.amount, Currency: wrong.currency, ReceiptEmail: wrong.receipt}
			p.SetIdempotencyKey("k")
			_, err := c.V1Charges.Create(g.Context(), p)
			wants(t, err, http.StatusBadRequest, stripe.ErrorTypeInvalidRequest, wrong.code, wrong.param)
		}
		p := &stripe.ChargeCreateParams{Amount: stripe.Int64(1), Currency: stripe.String("eur")}
		p.SetIdempotencyKey("k")
		_, err := c.V1Charges.Create(g.Context(), p)
		must(t, err)
		if n := g.count("select count(*) from charge"); n != 1 {
			t.Errorf("%d charges", n)
		}
	})
}

func wants(t *testing.T, err error, status int, kind stripe.ErrorType, code stripe.ErrorCode, param string) {
	t.Helper()
	var e *stripe.Error
	if !errors.As(err, &e) || e.HTTPStatusCode != status || e.Type != kind || e.Code != code || e.Param != param || e.Msg == "" || e.RequestID == "" {
		t.Errorf("%v, want status %d, %s, code %q, param %q", err, status, kind, code, param)
	}
}
