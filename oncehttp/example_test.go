package oncehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// show sends a request and prints what comes back.
func show(h http.Handler, r *http.Request) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(strings.TrimSpace(fmt.Sprintln(w.Code, w.Header().Get("Idempotency-Status"), w.Body)))
}

func post(target, key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// Handlers of the ordinary shape find their transaction in the context.
func ExampleMiddleware() {
	s := memstore.New() // pgxstore.New(pool, ...) or sqlstore in production
	engine := once.New(s, once.Config{})
	protect := oncehttp.Middleware(engine, oncehttp.Config{
		Principal: func(r *http.Request) string { return r.Header.Get("X-Account") },
	})
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		amount, _ := io.ReadAll(r.Body)
		tx := oncehttp.Tx[*memstore.Tx](r.Context())
		if err := tx.Insert("refund of ch_9ab", string(amount)); err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "refunded %s", amount)
	})))

	for range 2 { // the second one is a retry
		r := post("/refunds", "8e03978e-40d5-43e8-bc93-6894a57f9324", "1000")
		r.Header.Set("X-Account", "acme")
		show(mux, r)
	}
	// Output:
	// 201 stored refunded 1000
	// 201 replayed refunded 1000
}

// With Handler the transaction is an argument.
func ExampleHandler() {
	engine := once.New(memstore.New(), once.Config{})
	refund := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal()},
		func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			if _, refunded, _ := tx.Get("ch_9ab"); refunded {
				oncehttp.WriteProblem(w, oncehttp.Problem{Status: 422, Code: "VALIDATION.already_refunded", SafeNewKey: true})
				return
			}
			_ = tx.Put("ch_9ab", "refunded")
			fmt.Fprint(w, "refunded")
		})
	show(refund, post("/", "first", ""))
	show(refund, post("/", "first", ""))
	show(refund, post("/", "second", ""))
	// Output:
	// 200 stored refunded
	// 200 replayed refunded
	// 422 stored {"title":"Unprocessable Entity","status":422,"code":"VALIDATION.already_refunded","retryable":false,"safe_new_key":true}
}

// Authentication is outside: it decides for retries too, and what it refuses is not
// stored.
func ExampleMiddleware_authentication() {
	engine := once.New(memstore.New(), once.Config{})
	tokens := map[string]string{"token-1": "acme"}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			account, ok := tokens[r.Header.Get("Authorization")]
			if !ok {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			r.Header.Set("X-Account", account)
			next.ServeHTTP(w, r)
		})
	}
	protect := oncehttp.Middleware(engine, oncehttp.Config{
		Principal: func(r *http.Request) string { return r.Header.Get("X-Account") },
	})
	h := authenticate(protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "done for "+r.Header.Get("X-Account"))
	})))
	ask := func() {
		r := post("/", "k", "")
		r.Header.Set("Authorization", "token-1")
		show(h, r)
	}
	ask()
	ask()
	delete(tokens, "token-1")
	ask()
	// Output:
	// 200 stored done for acme
	// 200 replayed done for acme
	// 401  who are you?
}

// Where the key is optional, a request without one still has a transaction, and every
// retry of it executes again.
func ExampleConfig_optional() {
	engine := once.New(memstore.New(), once.Config{})
	n := 0
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Optional: true},
		func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
			n++
			fmt.Fprintf(w, "order %d", n)
		})
	show(h, post("/orders", "", "a book"))
	show(h, post("/orders", "", "a book"))
	show(h, post("/orders", "k", "a book"))
	show(h, post("/orders", "k", "a book"))
	// Output:
	// 200 ignored order 1
	// 200 ignored order 2
	// 200 stored order 3
	// 200 replayed order 3
}

// A hidden field in a form makes a double click one order.
func ExampleConfig_form() {
	engine := once.New(memstore.New(), once.Config{})
	h := oncehttp.Handler(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), FormField: "once"},
		func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			_ = tx.Put("order", r.FormValue("item"))
			http.Redirect(w, r, "/orders/1", http.StatusSeeOther)
		})
	for range 2 {
		form := url.Values{"once": {"made when the page was"}, "item": {"a book"}}
		r := post("/orders", "", form.Encode())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		show(h, r)
	}
	// Output:
	// 303 stored
	// 303 replayed
}

// A conditional update: only who has seen the present version replaces it.
func ExampleIfMatch() {
	version := 7
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		etag := fmt.Sprintf(`"v%d"`, version) // read in the transaction
		if ok, present := oncehttp.IfMatch(r, etag); present && !ok {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		version++
		fmt.Fprintf(w, "version %d", version)
	})
	for range 2 {
		r := httptest.NewRequest(http.MethodPut, "/prices/1", nil)
		r.Header.Set("If-Match", `"v7"`)
		show(h, r)
	}
	// Output:
	// 200  version 8
	// 412
}

// A decline that must leave its trace: the answer is a 402, and the writes stand.
func ExampleDecide() {
	s := memstore.New()
	h := oncehttp.Handler(once.New(s, once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()},
		func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			_ = tx.Put("declined", "card 4242")
			oncehttp.Decide(r.Context(), oncehttp.VerdictCommit)
			w.WriteHeader(http.StatusPaymentRequired)
		})
	show(h, post("/charges", "k", ""))
	trace, _ := s.Get("declined")
	fmt.Println(trace)
	// Output:
	// 402 stored
	// card 4242
}
