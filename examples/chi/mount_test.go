package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// TestTwoMountsAreTwoRoutes: one key and one body at /test/charges and at /live/charges are
// two charges or a refusal, however chi has come to the handler, and never one charge that
// answers for both.
func TestTwoMountsAreTwoRoutes(t *testing.T) {
	for name, mount := range map[string]func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc){
		"Mount, protected inside": func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc) {
			sub := chi.NewRouter()
			sub.Use(protect)
			sub.Post("/charges", charge)
			root.Mount("/test", sub)
			root.Mount("/live", sub)
		},
		"Mount, protected route": func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc) {
			sub := chi.NewRouter()
			sub.With(protect).Post("/charges", charge)
			root.Mount("/test", sub)
			root.Mount("/live", sub)
		},
		"Mount, protected outside": func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc) {
			root.Use(protect)
			sub := chi.NewRouter()
			sub.Post("/charges", charge)
			root.Mount("/test", sub)
			root.Mount("/live", sub)
		},
		"Route and Group": func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc) {
			for _, prefix := range []string{"/test", "/live"} {
				root.Route(prefix, func(r chi.Router) {
					r.Group(func(r chi.Router) {
						r.Use(protect)
						r.Post("/charges", charge)
					})
				})
			}
		},
		"StripPrefix around a router": func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc) {
			sub := chi.NewRouter()
			sub.With(protect).Post("/charges", charge)
			outer := http.NewServeMux()
			outer.Handle("/test/", http.StripPrefix("/test", sub))
			outer.Handle("/live/", http.StripPrefix("/live", sub))
			root.NotFound(outer.ServeHTTP)
		},
		"PathRewrite": func(root chi.Router, protect func(http.Handler) http.Handler, charge http.HandlerFunc) {
			root.Use(middleware.PathRewrite("/test", ""), middleware.PathRewrite("/live", ""))
			root.With(protect).Post("/charges", charge)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := memstore.New()
			charges := 0
			root := chi.NewRouter()
			mount(root, oncehttp.Middleware(once.New(m, once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()}), func(w http.ResponseWriter, r *http.Request) {
				charges++
				if err := oncehttp.Tx[*memstore.Tx](r.Context()).Put("charges", strconv.Itoa(charges)); err != nil {
					t.Error(err)
				}
				fmt.Fprintf(w, "charge %d", charges)
			})
			post := func(target string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, target, strings.NewReader("1000"))
				r.Header.Set("Idempotency-Key", "k")
				w := httptest.NewRecorder()
				root.ServeHTTP(w, r)
				return w
			}
			if w := post("/test/charges"); w.Code != 200 || w.Body.String() != "charge 1" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if w := post("/live/charges"); w.Header().Get("Idempotent-Replayed") != "" || w.Code != 422 && w.Body.String() != "charge 2" {
				t.Errorf("the live charge is answered with that of the test: %d %s", w.Code, w.Body)
			}
			if w := post("/test/charges"); w.Header().Get("Idempotent-Replayed") != "true" || w.Body.String() != "charge 1" {
				t.Errorf("the retry: %d %s", w.Code, w.Body)
			}
		})
	}
}
