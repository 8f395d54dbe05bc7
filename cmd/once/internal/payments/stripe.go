package payments

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/oncehttp"
)

// StripeV1 is the dialect of Stripe's API v1: the same charges and refunds, in the
// forms, objects and errors of /v1/charges and /v1/refunds, so that Stripe's own client
// libraries can talk to them. Any secret key is an account: the tenant is a hash of it, so that
// no secret is stored or logged.
const StripeV1 = "stripe-v1"

// StripeWait is the default of Config.Wait in the dialect StripeV1: stripe-go treats the 409 of a request in flight as final.
const StripeWait = 5 * time.Second

func newStripeServer(db *DB, cfg Config) http.Handler {
	cfg.Wait = max(0, cmp.Or(cfg.Wait, StripeWait))
	plain := func(a action) http.Handler { return unprotected(db, cfg, a) }
	keys := protected{all: plain, writes: plain}
	if !cfg.Unsafe {
		keys = db.protect(cfg)
	}
	api := http.NewServeMux()
	api.Handle("POST /v1/charges", keys.writes(createStripeCharge))
	api.Handle("GET /v1/charges/{id}", plain(getStripeCharge))
	api.Handle("POST /v1/refunds", keys.all(createStripeRefund))
	api.Handle("GET /v1/refunds/{id}", plain(getStripeRefund))
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeStripeError(w, invalidRequest(http.StatusNotFound, "", "", "Unrecognized request URL ("+r.Method+": "+r.URL.Path+")."))
	})
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", plain(health))
	keys.publish(mux, "POST /v1/charges", "POST /v1/refunds")
	mux.Handle("/", authenticateStripe(api))
	return mux
}

// authenticateStripe reads the secret key from either header in which clients send it.
func authenticateStripe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Request-Id", newID("req_"))
		scheme, name, _ := strings.Cut(credentials(r), " ")
		if user, _, basic := r.BasicAuth(); basic && credentials(r) != "" {
			name = user
		} else if !strings.EqualFold(scheme, "Bearer") {
			name = ""
		}
		switch {
		case !tenantName.MatchString(name):
			w.Header().Set("WWW-Authenticate", `Basic realm="payments"`)
			writeStripeError(w, invalidRequest(http.StatusUnauthorized, "", "", "The request has no secret key. Send the secret key of any account as the user or as a bearer token."))
		case r.Header.Get("Stripe-Account") != "" || r.Header.Get("Stripe-Context") != "":
			writeStripeError(w, invalidRequest(http.StatusForbidden, "account_invalid", "", "In this service an account cannot act for another account."))
		default:
			next.ServeHTTP(w, asTenant(r, stripeAccount(name)))
		}
	})
}

// stripeAccount is the name of the tenant with a secret key. Tenants are stored and logged, secrets must not be. A fast hash is sufficient for
// secrets that cannot be guessed.
func stripeAccount(secretKey string) string {
	sum := sha256.Sum256([]byte("account of the secret key " + secretKey))
	return "acct_" + hex.EncodeToString(sum[:16])
}

// stripeCharge is a charge as Stripe shows it, with the members that have a meaning here.
type stripeCharge struct {
	ID             string   `json:"id"`
	Object         string   `json:"object"`
	Amount         int64    `json:"amount"`
	AmountCaptured int64    `json:"amount_captured"`
	AmountRefunded int64    `json:"amount_refunded"`
	Captured       bool     `json:"captured"`
	Created        int64    `json:"created"`
	Currency       string   `json:"currency"`
	Customer       *string  `json:"customer"`
	Description    *string  `json:"description"`
	Livemode       bool     `json:"livemode"`
	Metadata       metadata `json:"metadata"`
	Paid           bool     `json:"paid"`
	Refunded       bool     `json:"refunded"`
	Status         string   `json:"status"`
}

func (c Charge) stripe() stripeCharge {
	return stripeCharge{
		ID: c.ID, Object: "charge", Amount: c.Amount, AmountCaptured: c.Amount, AmountRefunded: c.Refunded, Captured: true,
		Created: seconds(c.CreatedAt), Currency: strings.ToLower(c.Currency), Customer: orNull(c.Customer),
		Description: orNull(c.description), Metadata: c.metadata, Paid: true, Refunded: c.Refunded == c.Amount, Status: succeeded,
	}
}

// stripeRefund is a refund as Stripe shows it.
type stripeRefund struct {
	ID       string   `json:"id"`
	Object   string   `json:"object"`
	Amount   int64    `json:"amount"`
	Charge   string   `json:"charge"`
	Created  int64    `json:"created"`
	Currency string   `json:"currency"`
	Metadata metadata `json:"metadata"`
	Reason   *string  `json:"reason"`
	Status   string   `json:"status"`
}

func (re Refund) stripe(currency string) stripeRefund {
	s := stripeRefund{
		ID: re.ID, Object: "refund", Amount: re.Amount, Charge: re.ChargeID, Created: seconds(re.CreatedAt),
		Currency: strings.ToLower(currency), Metadata: re.metadata, Reason: orNull(re.reason), Status: re.Status,
	}
	if re.Status == voided {
		s.Status = "canceled"
	}
	return s
}

// orNull returns nil for an empty text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// seconds converts a stored time to Unix seconds, as in Stripe's API.
func seconds(at string) int64 {
	t, _ := time.Parse(time.RFC3339Nano, at) // cannot fail: now has written it
	return t.Unix()
}

func createStripeCharge(r *http.Request, tx queries) (answer, error) {
	in, err := readStripeForm(r, "amount", "currency", "customer", "description", "source") // any source is accepted
	if err != nil {
		return answer{}, err
	}
	c := Charge{
		ID: newID("ch_"), Amount: in.amount(), Currency: in.currency(), Customer: in.text("customer"), CreatedAt: now(),
		description: in.text("description"), metadata: in.metadata(),
	}
	if in.wrong != nil {
		return answer{}, in.wrong
	}
	return answer{body: c.stripe()}, take(r.Context(), tx, tenant(r), c)
}

func getStripeCharge(r *http.Request, tx queries) (answer, error) {
	c, err := chargeByID(r.Context(), tx, tenant(r), r.PathValue("id"))
	return answer{body: c.stripe()}, err
}

// createStripeRefund refunds the given amount, or else the rest of the charge.
func createStripeRefund(r *http.Request, tx queries) (answer, error) {
	in, err := readStripeForm(r, "charge", "amount", "reason")
	if err != nil {
		return answer{}, err
	}
	re := Refund{
		ID: newID("re_"), ChargeID: in.required("charge"), Status: succeeded, CreatedAt: now(),
		reason: in.oneOf("reason", "duplicate", "fraudulent", "requested_by_customer"), metadata: in.metadata(),
	}
	if in.values.Has("amount") {
		re.Amount = in.amount()
	}
	if in.wrong != nil {
		return answer{}, in.wrong
	}
	c, err := chargeByID(r.Context(), tx, tenant(r), re.ChargeID)
	if err != nil {
		return answer{}, err
	}
	if re.Amount == 0 {
		re.Amount = c.Amount - c.Refunded
	}
	if c.Refunded == c.Amount {
		return answer{}, invalidRequest(http.StatusBadRequest, "charge_already_refunded", "", "The charge "+c.ID+" has already been refunded.")
	}
	return answer{body: re.stripe(c.Currency)}, give(r.Context(), tx, tenant(r), re)
}

func getStripeRefund(r *http.Request, tx queries) (answer, error) {
	re, err := refundByID(r.Context(), tx, tenant(r), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	c, err := chargeByID(r.Context(), tx, tenant(r), re.ChargeID)
	return answer{body: re.stripe(c.Currency)}, err
}

// stripeReply writes the result of an action in Stripe's format.
func stripeReply(w http.ResponseWriter, r *http.Request, a answer, err error) {
	var e *stripeError
	var p *problem
	switch {
	case errors.As(err, &e):
		if e.early {
			oncehttp.Decide(r.Context(), oncehttp.VerdictDiscard)
		}
		writeStripeError(w, e)
	case errors.As(err, &p):
		writeStripeError(w, p.stripe())
	case err != nil:
		oncehttp.Fail(w, r, err)
	default:
		writeJSON(w, http.StatusOK, a.body)
	}
}
