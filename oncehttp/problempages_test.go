package oncehttp_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
)

// TestEachProblemHasAPage that is found under its type, and says what the answer says.
func TestEachProblemHasAPage(t *testing.T) {
	preset := oncehttp.DefaultPreset()
	preset.ProblemBase = "https://api.example.com/problems/"
	s := start(t, setup{Config: oncehttp.Config{Preset: preset}}, create)
	p := s.send("POST", "/", "").problem(t)
	if p.Type != "https://api.example.com/problems/validation/idempotency-key-missing" {
		t.Error(p.Type)
	}
	pages := http.StripPrefix("/problems", oncehttp.ProblemPages())
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	all := map[string]string{} // status by code
	for code, p := range oncehttp.Problems() {
		all[string(code)] = http.StatusText(p.Status)
	}
	for _, r := range limit.Refusals() {
		all[r.Code] = http.StatusText(r.Status)
	}
	_, list := get("/problems/")
	number := regexp.MustCompile(`What happened\.</strong> (\d{3})`)
	for code, status := range all {
		path := "/problems/" + strings.NewReplacer(".", "/", "_", "-").Replace(strings.ToLower(code))
		got, page := get(path)
		if got != 200 || !strings.Contains(page, "<h1>"+code+"</h1>") {
			t.Errorf("GET %s: %d %s", path, got, page)
			continue
		}
		if m := number.FindStringSubmatch(page); m == nil || statusText(m[1]) != status {
			t.Errorf("the page of %s says status %q, it is %s", code, m, status)
		}
		for _, part := range []string{"Is it safe to send the request again?", "What to do."} {
			if !strings.Contains(page, part) {
				t.Errorf("the page of %s does not say %q", code, part)
			}
		}
		if !strings.Contains(list, `"`+strings.TrimPrefix(path, "/problems/")+`"`) {
			t.Errorf("the list has no %s", code)
		}
	}
	if got, _ := get("/problems/no/such"); got != 404 {
		t.Errorf("a page that is not there: %d", got)
	}
}

// TestAProblemNamesItsCase by the hash that logs have, and links to its page.
func TestAProblemNamesItsCase(t *testing.T) {
	s := start(t, setup{}, create)
	if a := s.send("POST", "/", "one", "Idempotency-Key", "k-1"); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	a := s.send("POST", "/", "another", "Idempotency-Key", "k-1")
	p := a.problem(t)
	if want := "urn:once:key:" + once.KeyHash("k-1"); p.Instance != want {
		t.Errorf("instance %q, want %q", p.Instance, want)
	}
	if got, want := a.header.Get("Link"), "<"+p.Type+`>; rel="help"`; got != want {
		t.Errorf("Link %q, want %q", got, want)
	}
}
