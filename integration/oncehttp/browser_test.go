package oncehttp_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// withCORS is the middleware of docs/browsers.md.
func withCORS(origin string, cfg oncehttp.Config, next http.Handler) http.Handler {
	allow, expose := cfg.CORS()
	allow = append(allow, "Authorization")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		if r.Header.Get("Origin") == origin {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", strings.Join(expose, ", "))
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" { // a preflight: no credentials, no effect
			h.Set("Access-Control-Allow-Methods", "POST, PATCH")
			h.Set("Access-Control-Allow-Headers", strings.Join(allow, ", "))
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// shop is a service of another origin than its pages.
type shop struct {
	mu         sync.Mutex
	requests   map[string]int // by key
	preflights int
	failed     bool // the page has given up once
}

// lose cuts the connection in place of the first answers to a key, after their commit.
func (s *shop) lose(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if r.Method == http.MethodOptions {
			s.preflights++
			s.mu.Unlock()
			next.ServeHTTP(w, r)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		s.requests[key]++
		n, all := s.requests[key], r.URL.Query().Get("lose") == "all"
		few, _ := strconv.Atoi(r.URL.Query().Get("lose"))
		lost := all && !s.failed || n <= few // a browser may send a POST again by itself
		s.mu.Unlock()
		if lost {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// TestBrowserOfAnotherOrigin: a page of another origin in a real browser sends keys, with preflights, and reads what the answers say of themselves. A double click, lost
// answers and a reload have one effect each, by the script of docs/browsers.md.
func TestBrowserOfAnotherOrigin(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "chromium")
	chromium, err := testenv.Binary("chromium")
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{requests: map[string]int{}}
	said, end := map[string]any{}, make(chan struct{})
	pages := http.NewServeMux()
	pages.Handle("GET /", http.FileServer(http.Dir("testdata")))
	pages.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var report map[string]any
		_ = json.NewDecoder(r.Body).Decode(&report)
		maps.Copy(said, report)
		if _, failed := report["failed"]; failed {
			s.mu.Lock()
			s.failed = true
			s.mu.Unlock()
		}
		if _, over := report["end"]; over {
			close(end)
		}
	})
	page := httptest.NewServer(pages)
	defer page.Close()

	mem := memstore.New()
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Wait: time.Minute}
	orders := oncehttp.Handler(once.New(mem, once.Config{Observer: once.Discard}), cfg, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		body, _ := io.ReadAll(r.Body)
		n, _, _ := tx.Get("orders")
		if err := tx.Put("orders", n+"x"); err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.Header().Set("Location", "/orders/"+strconv.Itoa(len(n)+1))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
	api := httptest.NewServer(s.lose(withCORS(page.URL, cfg, orders)))
	defer api.Close()

	ctx, stop := context.WithCancel(t.Context())
	browser := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), page.URL+"/page.html#"+api.URL)
	browser.Env = append(os.Environ(), "HOME="+t.TempDir())
	browser.Stdout = io.Discard // a pipe: Wait waits until the children of the browser have ended, too, which write into its folders
	browser.WaitDelay = 10 * time.Second
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-end:
	case <-time.After(2 * time.Minute):
		t.Error("the page has not come to its end")
	}
	stop()
	_ = browser.Wait() // it was killed

	want := map[string]string{
		"double":   `["201 replayed /orders/1 {\"amount\":1}","201 stored /orders/1 {\"amount\":1}"]`,
		"lost":     `"201 replayed /orders/2 {\"amount\":2}"`,
		"simple":   `"201 stored /orders/3 1"`,
		"reloaded": `"201 replayed /orders/4 {\"amount\":3}"`,
		"kept":     `"nothing"`,
		"failed":   `"Error: It is not known yet whether this was done. Try again: it is not done twice."`,
		"end":      `""`,
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got, err := json.Marshal(said[name]); err != nil || string(got) != want[name] {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want[name])
		}
	}
	if said["error"] != nil {
		t.Error(said["error"])
	}
	if n, _ := mem.Get("orders"); n != "xxxx" {
		t.Errorf("the orders are %q, want 4", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.preflights == 0 {
		t.Error("vacuous: there was no preflight")
	}
}

// TestTheBrowsersPage has the script that the browser runs.
func TestTheBrowsersPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/browsers.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/once.js")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```js\n"+string(script)+"```") {
		t.Error("docs/browsers.md has another script than integration/oncehttp/testdata/once.js")
	}
}
