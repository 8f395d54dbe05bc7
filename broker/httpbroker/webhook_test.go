package httpbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// numbers is a decoder of bodies such as ["1", "2"]: each text is the ID of a message.
func numbers(_ *http.Request, body []byte) ([]message.Message, error) {
	var ids []string
	if err := json.Unmarshal(body, &ids); err != nil {
		return []message.Message{{ID: "broken", Payload: body}}, fmt.Errorf("no list: %w", err)
	}
	list := make([]message.Message, len(ids))
	for i, id := range ids {
		list[i] = message.Message{ID: id, Type: "t", Payload: []byte(id)}
	}
	return list, nil
}

func hook(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hooks/acme", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// TestReceiverVerifies: of a request that is not verified, nothing is decoded, applied or kept, and the sender does not learn why. If it
// could not be checked, the sender comes again.
func TestReceiverVerifies(t *testing.T) {
	forged := errors.New("forged, says a secret")
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		request *http.Request
		verdict error
		status  int
		after   string
		handled int
	}{
		"good":                {hook(`["1"]`), nil, 200, "", 1},
		"forged":              {hook(`["1"]`), forged, 401, "", 0},
		"forged and broken":   {hook(`[`), forged, 401, "", 0},
		"too large":           {hook(`["` + strings.Repeat("1", 1<<20) + `"]`), nil, 413, "", 0},
		"no secrets now":      {hook(`["1"]`), &once.Error{Code: once.CodeUnavailable}, 503, "", 0},
		"no secrets for 2 s":  {hook(`["1"]`), retry.After(forged, 2*time.Second), 503, "2", 0},
		"the sender is gone":  {hook(`["1"]`).WithContext(ended), forged, 503, "", 0},
		"forged for all time": {hook(`["1"]`), retry.Permanent(forged), 401, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var in calls
			w := httptest.NewRecorder()
			verified := ""
			in.with(ReceiverConfig{Decode: numbers, Verify: func(_ *http.Request, body []byte) error {
				verified = string(body)
				return c.verdict
			}}, 100).ServeHTTP(w, c.request)
			if w.Code != c.status || w.Header().Get("Retry-After") != c.after || len(in.handled) != c.handled || len(in.refused) > 0 {
				t.Errorf("%d, %q: %+v", w.Code, w.Header().Get("Retry-After"), in)
			}
			if strings.Contains(w.Body.String(), "secret") || (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
			if c.status == http.StatusOK && verified != `["1"]` {
				t.Errorf("%q was verified, and not the bytes that were sent", verified)
			}
		})
	}
}

// TestReceiverDecodes: a decoder makes one message, several or none of a body. What it leaves out is what a CloudEvent would have.
func TestReceiverDecodes(t *testing.T) {
	down := &once.Error{Code: once.CodeUnavailable}
	for name, c := range map[string]struct {
		body     string
		failure  error
		status   int
		answer   string
		handled  int
		letterOf string
	}{
		"one":                  {`["1"]`, nil, 200, `{"outcome":"applied"}` + "\n", 1, ""},
		"two":                  {`["1","2"]`, nil, 200, `{"outcomes":["applied","applied"]}` + "\n", 2, ""},
		"none":                 {`[]`, nil, 204, "", 0, ""},
		"more than at once":    {`["1"` + strings.Repeat(`,"2"`, receiver.AtOnce) + `]`, nil, 200, "", receiver.AtOnce + 1, ""},
		"the first lot failed": {`["1"` + strings.Repeat(`,"2"`, receiver.AtOnce) + `]`, down, 503, "", receiver.AtOnce, ""},
		"broken":               {`{`, nil, 400, "", 0, "broken"},
		"too large":            {`["` + strings.Repeat("1", 1001) + `"]`, nil, 413, "", 0, strings.Repeat("1", 1001)},
	} {
		t.Run(name, func(t *testing.T) {
			in := calls{failure: c.failure}
			w := httptest.NewRecorder()
			cfg := ReceiverConfig{Decode: numbers, Source: func(*http.Request, message.Message) string { return "acme" }}
			in.with(cfg, 1000).ServeHTTP(w, hook(c.body, "Once-Attempt", "2"))
			if w.Code != c.status || c.answer != "" && w.Body.String() != c.answer || len(in.handled) != c.handled {
				t.Fatalf("%d %s, %d handled", w.Code, w.Body, len(in.handled))
			}
			for _, m := range append(in.handled, in.refused...) {
				if m.Source != "acme" || m.Topic != "/hooks/acme" || m.Delivery != 2 {
					t.Errorf("%+v", m)
				}
			}
			if letter := (append(in.refused, message.Message{}))[0]; letter.ID != c.letterOf || len(letter.Payload) > 1000 {
				t.Errorf("the letter is %+v", letter)
			}
		})
	}
	var in calls
	cfg := ReceiverConfig{Decode: func(*http.Request, []byte) ([]message.Message, error) {
		return []message.Message{{ID: "1", Topic: "refunds", Source: "shop", Delivery: 7}}, nil
	}}
	in.with(cfg, 100).ServeHTTP(httptest.NewRecorder(), hook("", "Once-Topic", "%0a"))
	if len(in.handled) != 1 || in.handled[0].Topic != "refunds" || in.handled[0].Source != "shop" || in.handled[0].Delivery != 7 {
		t.Errorf("what a decoder says counts: %+v", in)
	}
}

// TestReceiverKeepsNoSignature: a signature is of one delivery, and not stored with a message.
func TestReceiverKeepsNoSignature(t *testing.T) {
	for _, name := range []string{"Stripe-Signature", "X-Hub-Signature-256", "Webhook-Signature", "X-Shopify-Hmac-Sha256", "Paypal-Transmission-Sig", "Signature-Input"} {
		var in calls
		in.receiver(100).ServeHTTP(httptest.NewRecorder(), event(nil, name, "x", "Tenant", "7"))
		if len(in.handled) != 1 || len(in.handled[0].Headers) != 1 || in.handled[0].Headers["tenant"] != "7" {
			t.Errorf("%s: %+v", name, in.handled)
		}
	}
}
