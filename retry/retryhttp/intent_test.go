package retryhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestALoginPageSettlesNothing: a redirect by a proxy in front of the server, and
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

// TestRedirectsThatAreNotFollowed: whatever the reason is, the intent has no owner any more,
// and it can be resumed and resolved.
func TestRedirectsThatAreNotFollowed(t *testing.T) {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for name, c := range map[string]struct {
		status   int
		location string
		check    func(*http.Request, []*http.Request) error
		streamed bool
		fails    bool
	}{
		"no Location":      {status: 307},
		"told not to":      {status: 308, location: "/new", check: stay},
		"streamed body":    {status: 307, location: "/new", streamed: true},
		"a loop":           {status: 308, location: "/old", fails: true},
		"no address":       {status: 307, location: "http://[", fails: true},
		"to nowhere":       {status: 308, location: "ftp://service.example/", fails: true},
		"nor a stored one": {status: 308, location: "/new", check: stay},
	} {
		header := []string{"Location", c.location}
		if c.location == "" {
			header = nil
		}
		if name == "nor a stored one" {
			header = append(header, "Idempotency-Status", "stored")
		}
		f, path := newJournal(t)
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
			if r.URL.Scheme != "http" {
				return nil, errors.New("unsupported protocol scheme")
			}
			return answer(c.status, header...), nil
		}}
		client := journaled(f, s)
		client.CheckRedirect = c.check
		var body io.Reader = strings.NewReader("body")
		if c.streamed {
			body = struct{ io.Reader }{body}
		}
		req, err := http.NewRequestWithContext(retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k"}), http.MethodPost, "http://service.example/old", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if (err != nil) != c.fails {
			t.Fatalf("%s: %v", name, err)
		}
		if resp != nil {
			resp.Body.Close()
		}
		list, err := f.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Active || !slices.Equal(openIn(t, path), []string{"k"}) {
			t.Errorf("%s: %+v, %v", name, list, err)
			continue
		}
		sent := len(s.requests())
		if r, _ := journal.Resume(t.Context(), f, client, journal.Options{}); r != (journal.Resumed{Open: 1}) || len(s.requests()) == sent {
			t.Errorf("%s: %+v", name, r)
		}
		if err := f.Resolve(t.Context(), list[0].ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFollowedIntent: the request that follows a redirect is not one that comes
// again, and what was unknown before the redirect is so behind it.
func TestFollowedIntent(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		f, path := newJournal(t)
		s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/new" && len(openIn(t, path)) != 1:
				t.Error("not in the journal behind a redirect")
			case r.URL.Path == "/new":
				return answer(http.StatusUnauthorized), nil
			case doubt && n == 1:
				return nil, io.ErrUnexpectedEOF
			}
			return answer(http.StatusPermanentRedirect, "Location", "/new"), nil
		}}
		resp, err := ask(t, journaled(f, s), "k", "http://service.example/old")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		requests := s.requests()
		last := requests[len(requests)-1]
		if last.URL.Path != "/new" || last.Header.Get("Once-First-Sent") != "" || last.Header.Get("Once-Attempt") != "1" || last.Header.Get("Idempotency-Key") != "k" {
			t.Errorf("%s %v", last.URL, last.Header)
		}
		if list, err := f.List(t.Context()); err != nil || len(list) != 1 || list[0].Active || list[0].URL != "http://service.example/old" {
			t.Errorf("%+v, %v", list, err)
		}
	}
}

// TestTheTimeInTheJournal: a resumed intent has the time that it was written down with. The
// default of the process that resumes it does not count, and a shorter time that was set is obeyed,
// but not written down; for a plan without a time it is.
func TestTheTimeInTheJournal(t *testing.T) {
	const none = time.Duration(0)
	for name, c := range map[string]struct {
		written, set, told time.Duration
		sent               bool
		want               time.Duration // in the journal afterwards
	}{
		"default":              {72 * time.Hour, none, none, true, 72 * time.Hour},
		"shorter":              {72 * time.Hour, 24 * time.Hour, none, false, 72 * time.Hour},
		"longer":               {24 * time.Hour, 96 * time.Hour, none, false, 24 * time.Hour},
		"the server says so":   {72 * time.Hour, none, 48 * time.Hour, true, 48*time.Hour - time.Minute},
		"a plan":               {none, 72 * time.Hour, none, true, 72*time.Hour - time.Minute},
		"a plan, by default":   {none, none, none, false, none},
		"a plan, and a server": {none, 72 * time.Hour, 48 * time.Hour, true, 48*time.Hour - time.Minute},
	} {
		f, _ := newJournal(t)
		in := journal.Intent{Key: "k", Method: http.MethodPost, URL: "http://service.example/refunds", Since: time.Now().Add(-30 * time.Hour)}
		if c.written > 0 {
			in.Expires = in.Since.Add(c.written)
		}
		in, err := f.Begin(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.End(t.Context(), in, journal.ProofNone); err != nil {
			t.Fatal(err)
		}
		s := &served{base: always(http.StatusNotImplemented, "Idempotency-Retention", fmt.Sprint(c.told.Seconds()))}
		client := journaled(f, s)
		client.Transport.(*retryhttp.Transport).Dialect.Retain = c.set
		r, err := journal.Resume(t.Context(), f, client, journal.Options{})
		if sent := len(s.requests()) > 0; err != nil || sent != c.sent || sent != (r == journal.Resumed{Open: 1}) {
			t.Errorf("%s: sent %v, %+v, %v", name, sent, r, err)
		}
		list, err := f.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		got := none
		if !list[0].Expires.IsZero() {
			got = list[0].Expires.Sub(list[0].Since)
		}
		if got != c.want {
			t.Errorf("%s: %v in the journal, want %v", name, got, c.want)
		}
	}
}

// TestARequestThatWasRedirectedOnce: a copy of it with another key is another intent.
func TestARequestThatWasRedirectedOnce(t *testing.T) {
	f, path := newJournal(t)
	client := journaled(f, base(func(_ int, r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/old" {
			return answer(http.StatusTemporaryRedirect, "Location", "/new"), nil
		}
		return answer(http.StatusBadGateway), nil
	}))
	resp, err := ask(t, client, "k1", "http://service.example/old")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	again := resp.Request.Clone(retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k2"}))
	again.Header.Del("Idempotency-Key")
	again.Body, again.ContentLength = io.NopCloser(strings.NewReader("another body")), -1
	if again.Response == nil {
		t.Fatal("vacuous: the copy does not know of a redirect")
	}
	if resp, err = client.Transport.RoundTrip(again); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if open := openIn(t, path); !slices.Equal(open, []string{"k1", "k2"}) {
		t.Errorf("open: %v", open)
	}
}
