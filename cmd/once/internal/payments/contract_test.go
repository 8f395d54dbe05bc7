package payments_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/payments"
)

// TestLifeOfACharge follows one charge from its beginning to a refund that is taken back.
func TestLifeOfACharge(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		made := s.post("acme", "/charges", `{"amount":5000,"currency":"EUR","customer":"ada"}`)
		s.want(made, 201)
		charge := made.text("id")
		match(t, "charge", made.body, `^{"id":"ch_[a-z2-7]{26}","amount":5000,"refunded":0,"currency":"EUR","customer":"ada","created_at":"2[0-9-]{9}T[0-9:]{8}\.[0-9]{6}Z"}\n$`)
		if got := s.get("acme", "/charges/"+charge); got.body != made.body || made.header.Get("Location") != "/charges/"+charge {
			t.Errorf("GET %s, Location %s, POST %s", got.body, made.header.Get("Location"), made.body)
		}

		refunded := s.post("acme", "/refunds", `{"charge_id":"`+charge+`","amount":1200}`)
		s.want(refunded, 201)
		refund := refunded.text("id")
		match(t, "refund", refunded.body, `^{"id":"rf_[a-z2-7]{26}","charge_id":"`+charge+`","amount":1200,"status":"succeeded","created_at":"[^"]+Z"}\n$`)
		if got := s.get("acme", "/refunds/"+refund); got.body != refunded.body {
			t.Errorf("GET %s, POST %s", got.body, refunded.body)
		}
		if got := s.get("acme", "/charges/"+charge).text("refunded"); got != "1200" {
			t.Errorf("refunded %s", got)
		}
		if n := s.books("acme", charge); n != 2 {
			t.Errorf("%d ledger entries, want 2", n)
		}

		voided := s.post("acme", "/refunds/"+refund+"/void", "")
		s.want(voided, 200)
		if voided.text("status") != "voided" || voided.json("voided_at") == nil {
			t.Errorf("voided: %s", voided.body)
		}
		if got := s.get("acme", "/charges/"+charge).text("refunded"); got != "0" {
			t.Errorf("refunded %s after the void", got)
		}
		if n := s.books("acme", charge); n != 4 {
			t.Errorf("%d ledger entries after the void, want 4", n)
		}
		twice := s.post("acme", "/refunds/"+refund+"/void", "{}")
		s.want(twice, 422)
		if twice.text("code") != "VALIDATION.refund_voided" || s.books("acme", charge) != 4 {
			t.Errorf("voided twice: %s", twice.body)
		}
		s.want(s.post("acme", "/refunds", `{"charge_id":"`+charge+`","amount":5000}`), 201) // all of it is there again
	})
}

func match(t *testing.T, what, got, want string) {
	t.Helper()
	if !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// TestContractOfRefusals lists how requests are refused.
func TestContractOfRefusals(t *testing.T) {
	t.Parallel()
	const ok = `{"amount":5000,"currency":"EUR","customer":"ada"}`
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		charge := s.charge("acme", 5000)
		refund := s.post("acme", "/refunds", `{"charge_id":"`+charge+`","amount":1}`).text("id")
		for _, c := range []struct {
			method, path, body string
			status             int
			code               string
			field              string // that the problem points at
		}{
			{"POST", "/charges", ``, 400, "VALIDATION.invalid_json", ""},
			{"POST", "/charges", `{`, 400, "VALIDATION.invalid_json", ""},
			{"POST", "/charges", `[]`, 400, "VALIDATION.invalid_json", ""},
			{"POST", "/charges", `null`, 400, "VALIDATION.invalid_json", ""},
			{"POST", "/charges", ok + `{}`, 400, "VALIDATION.invalid_json", ""},
			{"POST", "/charges", "{\"customer\":\"\xff\"}", 400, "VALIDATION.invalid_json", ""},
			{"POST", "/charges", `{"amount":5000,"amount":1,"currency":"EUR","customer":"ada"}`, 400, "VALIDATION.duplicate_field", "amount"},
			{"POST", "/charges", `{"amount":5O00}`, 400, "VALIDATION.invalid_json", "amount"},
			{"POST", "/charges", `{"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.missing_field", "amount"},
			{"POST", "/charges", `{"amount":null,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.missing_field", "amount"},
			{"POST", "/charges", `{"amount":0,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":-1,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":50.00,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":5e3,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":"5000","currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":9007199254740992,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":9223372036854775808,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":-9223372036854775809,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.invalid_amount", "amount"},
			{"POST", "/charges", `{"amount":5000,"currency":"eur","customer":"ada"}`, 422, "VALIDATION.invalid_currency", "currency"},
			{"POST", "/charges", `{"amount":5000,"currency":"EUR","customer":""}`, 422, "VALIDATION.invalid_text", "customer"},
			{"POST", "/charges", `{"amount":5000,"currency":"EUR","customer":"a\u0000b"}`, 422, "VALIDATION.invalid_text", "customer"},
			{"POST", "/charges", `{"amount":5000,"currency":"EUR","customer":"\ud800"}`, 422, "VALIDATION.invalid_text", "customer"},
			{"POST", "/charges", `{"amount":5000,"currency":"EUR","customer":"ada","note":"x"}`, 422, "VALIDATION.unknown_field", "note"},
			{"POST", "/charges", `{"Amount":5000,"currency":"EUR","customer":"ada"}`, 422, "VALIDATION.missing_field", "Amount"},
			{"POST", "/charges", `{"customer":"` + strings.Repeat("a", 70<<10) + `"}`, 413, "VALIDATION.body_too_large", ""},
			{"POST", "/refunds", `{"charge_id":"` + charge + `","amount":5000}`, 422, "VALIDATION.amount_exceeds_charge", "amount"},
			{"POST", "/refunds", `{"charge_id":"ch_none","amount":1}`, 404, "NOT_FOUND.charge", ""},
			{"POST", "/refunds/rf_none/void", ``, 404, "NOT_FOUND.refund", ""},
			{"POST", "/refunds/" + refund + "/void", `{"why":"x"}`, 422, "VALIDATION.unknown_field", "why"},
			{"GET", "/charges/ch_none", ``, 404, "NOT_FOUND.charge", ""},
			{"GET", "/refunds/rf_none", ``, 404, "NOT_FOUND.refund", ""},
			{"GET", "/ledger", ``, 422, "VALIDATION.missing_field", "charge_id"},
			{"GET", "/ledger?charge_id=ch_none", ``, 404, "NOT_FOUND.charge", ""},
			{"GET", "/charges/a%00b", ``, 404, "NOT_FOUND.charge", ""},
			{"GET", "/refunds/a%ffb", ``, 404, "NOT_FOUND.refund", ""},
			{"POST", "/refunds/a%00b/void", ``, 404, "NOT_FOUND.refund", ""},
			{"POST", "/refunds/%ff/void", ``, 404, "NOT_FOUND.refund", ""},
			{"POST", "/refunds/a%0ab/void", ``, 404, "NOT_FOUND.refund", ""},
			{"GET", "/customers/a%00b", ``, 404, "NOT_FOUND.customer", ""},
			{"GET", "/ledger?charge_id=a%00b", ``, 404, "NOT_FOUND.charge", ""},
			{"GET", "/ledger?charge_id=%ff", ``, 404, "NOT_FOUND.charge", ""},
			{"PUT", "/customers/a%00b", `{"name":"a","email":"b"}`, 422, "VALIDATION.invalid_text", "id"},
			{"PUT", "/customers/%ff", `{"name":"a","email":"b"}`, 422, "VALIDATION.invalid_text", "id"},
			{"GET", "/nothing", ``, 404, "NOT_FOUND.path", ""},
			{"DELETE", "/refunds/" + refund, ``, 405, "VALIDATION.method", ""},
		} {
			var r reply
			if c.method == "POST" {
				r = s.post("acme", c.path, c.body)
			} else {
				r = s.send("acme", c.method, c.path, c.body)
			}
			name := c.method + " " + c.path + " " + c.body[:min(80, len(c.body))]
			if r.status != c.status || r.text("code") != c.code || r.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s:\n got %d %s, want %d %s", name, r.status, r.body, c.status, c.code)
			}
			if c.field != "" && !strings.Contains(r.body, `"pointer":"/`+c.field+`"`) {
				t.Errorf("%s: does not point at %s: %s", name, c.field, r.body)
			}
			if r.text("retryable") != "false" || (r.text("safe_new_key") == "true") != (c.status != 413) {
				t.Errorf("%s: %s", name, r.body)
			}
		}
		if n := s.books("acme", charge); n != 2 {
			t.Errorf("%d ledger entries after requests that were refused, want 2", n)
		}
	})
}

// TestAllFieldErrorsAtOnce: a client need not find them one by one.
func TestAllFieldErrorsAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		r := s.post("acme", "/charges", `{"amount":-5,"currency":"euros","cus/tomer":"ada"}`)
		s.want(r, 422)
		for _, p := range []string{"/amount", "/currency", "/customer", "/cus~1tomer"} {
			if !strings.Contains(r.body, `"pointer":"`+p+`"`) {
				t.Errorf("does not point at %s: %s", p, r.body)
			}
		}
	})
}

func TestAuthenticationIsRequired(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		for _, authorization := range []string{"", "Bearer", "Bearer ", "Basic acme", "Bearer a b", "Bearer " + strings.Repeat("a", 65)} {
			r := s.send("", "POST", "/charges", `{"amount":1,"currency":"EUR","customer":"a"}`, "Authorization: "+authorization, "Idempotency-Key: k")
			s.want(r, 401)
			if r.header.Get("WWW-Authenticate") != "Bearer" || r.text("code") != "AUTH.unauthenticated" ||
				r.text("type") != "https://oncelib.dev/problems/auth/unauthenticated" || r.text("safe_new_key") != "false" {
				t.Errorf("%q: %v %s", authorization, r.header, r.body)
			}
		}
		for _, two := range [][2]string{{"Bearer acme", "Bearer globex"}, {"Bearer acme", "Bearer acme"}, {"", "Bearer acme"}} {
			r := s.send("", "POST", "/charges", `{"amount":1,"currency":"EUR","customer":"a"}`, "Authorization: "+two[0], "Authorization: "+two[1], "Idempotency-Key: k")
			s.want(r, 401)
			if r.text("code") != "AUTH.unauthenticated" || !strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") {
				t.Errorf("%q: %v %s", two, r.header, r.body)
			}
		}
		s.want(s.postAs("acme", "k", "/charges", `{"amount":1,"currency":"EUR","customer":"a"}`), 201) // a 401 takes no key
		s.want(s.send("", "GET", "/healthz", ""), 200)
	})
}

// TestTenantsSeeOnlyTheirOwn: no tenant sees, refunds, voids or replays a payment of another.
func TestTenantsSeeOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		charge := s.charge("acme", 5000)
		body := `{"charge_id":"` + charge + `","amount":10}`
		made := s.postAs("acme", "shared", "/refunds", body)
		s.want(made, 201)
		refund := made.text("id")
		for _, r := range []reply{
			s.get("globex", "/charges/"+charge),
			s.get("globex", "/refunds/"+refund),
			s.get("globex", "/ledger?charge_id="+charge),
			s.postAs("globex", "shared", "/refunds", body),
			s.post("globex", "/refunds/"+refund+"/void", ""),
		} {
			s.want(r, 404)
		}
		again := s.postAs("acme", "shared", "/refunds", body)
		if again.body != made.body || again.header.Get("Idempotency-Status") != "replayed" || s.books("acme", charge) != 2 {
			t.Errorf("replayed %s, first %s", again.body, made.body)
		}
	})
}

func TestCustomerVersions(t *testing.T) {
	t.Parallel()
	const ada, countess = `{"name":"Ada","email":"ada@example.org"}`, `{"name":"Countess","email":"ada@example.org"}`
	onEach(t, payments.Config{}, func(t *testing.T, s service) {
		put := func(body string, header ...string) reply {
			return s.send("acme", "PUT", "/customers/ada", body, header...)
		}
		refused := func(r reply, why string) {
			t.Helper()
			if s.want(r, 412); !strings.Contains(r.text("detail"), why) {
				t.Errorf("does not say %q: %s", why, r.body)
			}
		}
		s.want(put(ada), 428)
		refused(put(ada, `If-Match: "1"`), "This customer does not exist")
		s.want(put(ada, `If-Match: *`), 412)
		s.want(s.get("acme", "/customers/ada"), 404)
		made := put(ada, `If-None-Match: *`)
		s.want(made, 201)
		refused(put(ada, `If-None-Match: *`), "exists already. Its ETag is "+made.header.Get("ETag"))
		tag := made.header.Get("ETag")
		if got := s.get("acme", "/customers/ada"); got.body != made.body || got.header.Get("ETag") != tag {
			t.Errorf("GET %s %s, PUT %s %s", got.body, got.header.Get("ETag"), made.body, tag)
		}
		s.want(put(countess), 428)
		changed := put(countess, "If-Match: "+tag)
		s.want(changed, 200)
		refused(put(ada, "If-Match: "+tag), "was changed") // also when it is the same request sent twice: it took effect once
		if got := s.get("acme", "/customers/ada"); got.text("name") != "Countess" || got.header.Get("ETag") != changed.header.Get("ETag") {
			t.Errorf("GET %s", got.body)
		}
		s.want(put(`{"name":"x"}`, "If-Match: *"), 422)
		s.want(s.send("globex", "GET", "/customers/ada", ""), 404)
	})
}
