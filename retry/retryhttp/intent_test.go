package retryhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// TestMadeKeysAreNotJournaled: a key that its caller does not know is not resumed, since
// that caller asks again with another one; also where it is redirected.
func TestMadeKeysAreNotJournaled(t *testing.T) {
	f, path := newJournal(t)
	s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/old" {
			return answer(http.StatusTemporaryRedirect, "Location", "/refunds"), nil
		}
		return answer(http.StatusBadGateway), nil
	}}
	client := journaled(f, s)
	client.Transport.(*retryhttp.Transport).Keys = true
	for _, url := range []string{"http://service.example/refunds", "http://service.example/old"} {
		resp, err := client.Post(url, "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if open := openIn(t, path); len(open) != 0 {
			t.Errorf("%s: open: %v", url, open)
		}
	}
	if keys := s.header("Idempotency-Key"); len(keys) != 5 || slices.Contains(keys, "") || keys[0] != keys[1] || keys[1] == keys[2] || keys[2] != keys[4] {
		t.Fatalf("vacuous: sent with the keys %v", keys)
	}
	if r, err := journal.Resume(t.Context(), f, client, journal.Options{}); err != nil || r != (journal.Resumed{}) || len(s.requests()) != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	resp, err := ask(t, client, "k", "http://service.example/refunds") // a key of the caller
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if open := openIn(t, path); !slices.Equal(open, []string{"k"}) {
		t.Errorf("open: %v", open)
	}
}

// TestALoginPageSettlesNothing: a redirect by whoever stands in front of the server, and
// the page that it leads to, leave the intent open, until the server itself has answered.
func TestALoginPageSettlesNothing(t *testing.T) {
	var pages, refunds int
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login":
			pages++
			_, _ = io.WriteString(w, "please log in")
		case r.Header.Get("Authorization") != "Bearer second":
			http.Redirect(w, r, "/login", http.StatusFound)
		default:
			refunds++
			w.WriteHeader(http.StatusCreated)
		}
	}))
	defer service.Close()
	f, path := newJournal(t)
	client := journaled(f, nil)
	resp, err := ask(t, client, "k", service.URL+"/refunds")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	// The request that is resumed has its key in the header, and so has the one for the page.
	if r, err := journal.Resume(t.Context(), f, client, journal.Options{}); err != nil || r != (journal.Resumed{Open: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
	if open := openIn(t, path); pages != 2 || refunds != 0 || !slices.Equal(open, []string{"k"}) {
		t.Fatalf("%d pages, %d refunds, open: %v", pages, refunds, open)
	}
	login := func(r *http.Request, _ journal.Intent) error {
		r.Header.Set("Authorization", "Bearer second")
		return nil
	}
	if r, err := journal.Resume(t.Context(), f, client, journal.Options{Prepare: login}); err != nil || r != (journal.Resumed{Closed: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
	if open := openIn(t, path); refunds != 1 || len(open) != 0 {
		t.Errorf("%d refunds, open: %v", refunds, open)
	}
}
