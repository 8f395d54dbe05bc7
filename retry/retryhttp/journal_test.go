package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func newJournal(t testing.TB) (f *journal.File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "intents")
	f, err := journal.Open(path, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, path
}

// openIn are the keys of the intents that a crash at this moment would leave.
func openIn(t testing.TB, path string) (keys []string) {
	t.Helper()
	list, damage, err := journal.Read(path)
	if err != nil || damage.Bytes != 0 {
		t.Error(damage, err)
	}
	for _, in := range list {
		keys = append(keys, in.Key)
	}
	return keys
}

func journaled(j journal.Journal, base http.RoundTripper) *http.Client {
	policy := retry.Policy{Attempts: 2, Base: -1, Budget: &retry.Budget{Burst: -1}}
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Journal: j, Policy: policy, Dialect: retryhttp.Dialect{Announce: true}}} // other tests may have met its host, or not
}

func ask(t testing.TB, client *http.Client, key, url string) (*http.Response, error) {
	t.Helper()
	ctx := retryhttp.WithKey(t.Context(), retryhttp.Key{Value: key})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("body of "+key))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer first")
	return client.Do(req)
}

// TestRoundTripperWithJournal: with a journal the transport is as correct as without.
func TestRoundTripperWithJournal(t *testing.T) {
	testenv.Prove(t)
	candidate := func(base http.RoundTripper, keys bool) http.RoundTripper {
		f, _ := newJournal(t)
		return &retryhttp.Transport{Base: base, Keys: keys, Journal: f}
	}
	roundtrippertest.Run(t, roundtrippertest.Candidate{
		New:         func(base http.RoundTripper) http.RoundTripper { return candidate(base, false) },
		NewWithKeys: func(base http.RoundTripper) http.RoundTripper { return candidate(base, true) },

		NewWithJournal: newWithJournal,
	})
}

// TestIntentComesFirst: when a request arrives its intent is on the disk, and it stays
// there until the caller has done with the answer.
func TestIntentComesFirst(t *testing.T) {
	f, path := newJournal(t)
	var arrived []string
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived = openIn(t, path) }))
	defer service.Close()
	resp, err := ask(t, journaled(f, nil), "k", service.URL)
	if err != nil || !slices.Equal(arrived, []string{"k"}) {
		t.Fatal(err, arrived)
	}
	if _, err := io.ReadAll(resp.Body); err != nil || len(openIn(t, path)) != 1 {
		t.Errorf("closed before its answer was taken: %v", err)
	}
	if err := resp.Body.Close(); err != nil || len(openIn(t, path)) != 0 {
		t.Errorf("still open, %v", err)
	}
	get, err := journaled(f, nil).Get(service.URL) // asks for nothing that could happen twice
	if err != nil || len(arrived) != 0 {
		t.Fatal(err, arrived)
	}
	get.Body.Close()
}

// TestNotWrittenNotSent: what the journal does not take does not leave.
func TestNotWrittenNotSent(t *testing.T) {
	f, _ := newJournal(t)
	var seen atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer service.Close()
	_ = f.Close()
	if _, err := ask(t, journaled(f, nil), "k", service.URL); !errors.Is(err, journal.ErrClosed) || seen.Load() != 0 {
		t.Errorf("%v, the server saw %d", err, seen.Load())
	}
}

// TestWhatIsDefinite: which answers close an intent, alone and after an attempt that may
// have been executed.
func TestWhatIsDefinite(t *testing.T) {
	problem := func(code string) []string {
		return []string{"Content-Type", "application/problem+json", "Body", `{"code":"` + code + `","retryable":false}`}
	}
	const closed, doubtful, open, held = "closed", "closed, unless an attempt may have been executed", "open", "held"
	for name, c := range map[string]struct {
		status int
		header []string
		want   string
	}{
		"success":            {201, nil, closed},
		"found":              {302, nil, open},
		"see other":          {303, nil, open},
		"stored see other":   {303, []string{"Idempotency-Status", "stored"}, closed},
		"replayed see other": {303, []string{"Idempotent-Replayed", "true"}, closed},
		"refused":            {422, nil, closed},
		"payment required":   {402, nil, closed},
		"who are you?":       {401, nil, doubtful},
		"conflict":           {409, nil, doubtful},
		"stored conflict":    {409, []string{"Idempotency-Status", "stored"}, closed},
		"too large conflict": {409, []string{"Idempotency-Status", "omitted"}, closed},
		"too many":           {429, []string{"Stripe-Should-Retry", "false"}, doubtful},
		"error":              {500, nil, open},
		"unavailable":        {503, []string{"Retry-After", "0"}, open},
		"replayed error":     {500, []string{"Idempotent-Replayed", "true"}, closed},
		"in flight":          {409, problem("CONFLICT.idempotency.in_flight"), open},
		"Stripe's in flight": {409, []string{"Stripe-Should-Retry", "true"}, open},
		"not now, says it":   {400, []string{"Stripe-Should-Retry", "true"}, doubtful},
		"replayed conflict":  {409, []string{"Stripe-Should-Retry", "true", "Idempotent-Replayed", "true"}, closed},
		"unknown":            {409, problem("CONFLICT.idempotency.unknown"), open},
		"unavailable result": {409, problem("CONFLICT.idempotency.result_unavailable"), closed},
		"mismatch":           {422, problem("CONFLICT.idempotency.mismatch"), closed},
		"stale":              {412, problem("CONFLICT.idempotency.stale"), held},
		"precondition":       {412, nil, doubtful},
	} {
		for _, doubt := range []bool{false, true} {
			f, path := newJournal(t)
			n := 0
			client := journaled(f, base(func(int, *http.Request) (*http.Response, error) {
				if n++; doubt && n == 1 {
					return nil, errors.New("connection reset")
				}
				resp := answer(c.status, c.header...)
				if text := resp.Header.Get("Body"); text != "" {
					resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
				}
				return resp, nil
			}))
			resp, err := ask(t, client, "k", "http://service.example/refunds")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			resp.Body.Close()
			got := closed
			if list, _, err := journal.Read(path); err != nil || len(list) > 0 {
				got = open
				if list[0].Held != "" {
					got = held
				}
			}
			want := c.want
			if want == doubtful {
				want = closed
				if doubt {
					want = open
				}
			}
			if got != want {
				t.Errorf("%s, after doubt %v: %s, want %s", name, doubt, got, want)
			}
		}
	}
}

// TestNoAnswer: what was provably not seen is closed, what may have been is open.
func TestNoAnswer(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	f, path := newJournal(t)
	if _, err := ask(t, journaled(f, nil), "cut", service.URL); err == nil {
		t.Fatal("answered")
	}
	service.Close()
	if _, err := ask(t, journaled(f, nil), "refused", service.URL); err == nil {
		t.Fatal("answered")
	}
	shut := journaled(f, nil)
	shut.Transport.(*retryhttp.Transport).Policy.Breaker = breakerFunc(func() (func(retry.Health), error) { return nil, errors.New("shut") })
	if _, err := ask(t, shut, "shut", service.URL); err == nil {
		t.Fatal("answered")
	}
	if got := openIn(t, path); !slices.Equal(got, []string{"cut"}) {
		t.Errorf("open: %v", got)
	}
	if _, err := ask(t, journaled(f, nil), "cut", service.URL); err == nil { // again, and not seen this time
		t.Fatal("answered")
	}
	if got := openIn(t, path); !slices.Equal(got, []string{"cut"}) {
		t.Errorf("open: %v", got)
	}
}

// TestResumeInAnotherProcess: another process asks again with the same key and the same bytes, says that
// it is not the first time and since when, and takes the answer.
func TestResumeInAnotherProcess(t *testing.T) {
	f, path := newJournal(t)
	if _, err := ask(t, journaled(f, base(func(int, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })), "k", "http://service.example/refunds"); err == nil {
		t.Fatal("answered")
	}
	_ = f.Close()
	f, err := journal.Open(path, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	s := &served{base: always(201)}
	client := journaled(f, s)
	refuse := errors.New("the answer could not be kept")
	options := journal.Options{
		Prepare: func(r *http.Request, _ journal.Intent) error {
			r.Header.Set("Authorization", "Bearer second")
			return nil
		},
		Answer: func(journal.Intent, *http.Response) error { return refuse },
	}
	if r, err := journal.Resume(t.Context(), f, client, options); !errors.Is(err, refuse) || r != (journal.Resumed{Open: 1}) || len(openIn(t, path)) != 1 {
		t.Fatalf("%+v, %v, open: %v", r, err, openIn(t, path))
	}
	var got journal.Intent
	options.Answer = func(in journal.Intent, resp *http.Response) error {
		got = in
		if len(openIn(t, path)) != 1 || resp.StatusCode != http.StatusCreated {
			t.Errorf("closed before the answer %d was taken", resp.StatusCode)
		}
		return nil
	}
	if r, err := journal.Resume(t.Context(), f, client, options); err != nil || r != (journal.Resumed{Closed: 1}) || len(openIn(t, path)) != 0 || got.Key != "k" {
		t.Fatalf("%+v, %v, open: %v", r, err, openIn(t, path))
	}
	for _, r := range s.requests() {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "body of k" || r.Header.Get("Idempotency-Key") != "k" || r.Header.Get("Authorization") != "Bearer second" ||
			r.Header.Get("Once-Attempt") != "2" || r.Header.Get("Once-First-Sent") != fmt.Sprint(got.Since.UnixMilli()) {
			t.Errorf("%q, %v", body, r.Header)
		}
	}
	if r, err := journal.Resume(t.Context(), f, client, options); err != nil || r != (journal.Resumed{}) || len(s.requests()) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestResumeNeedsTheJournal: a client that would not close intents is told apart.
func TestResumeNeedsTheJournal(t *testing.T) {
	f, _ := newJournal(t)
	if _, err := ask(t, journaled(f, always(500)), "k", "http://service.example/"); err != nil {
		t.Fatal(err)
	}
	if list, err := f.List(t.Context()); err != nil || !list[0].Active {
		t.Fatal("vacuous: the answer was not closed, and the intent is not active", err)
	}
	if r, err := journal.Resume(t.Context(), f, journaled(f, always(200)), journal.Options{}); err != nil || r != (journal.Resumed{Active: 1}) {
		t.Errorf("what is under way: %+v, %v", r, err)
	}
	other, path := newJournal(t)
	resp, err := ask(t, journaled(other, always(500)), "k", "http://service.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	r, err := journal.Resume(t.Context(), other, journaled(f, always(200)), journal.Options{})
	if err == nil && r.Closed > 0 || len(openIn(t, path)) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = journal.Resume(t.Context(), other, &http.Client{Transport: always(200)}, journal.Options{})
	if err == nil || !strings.Contains(err.Error(), "Try: ") || r.Open != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRedirect: where a request is redirected it is the same intent, which is closed by
// the answer at the end, and resumed from the beginning.
func TestRedirectedIntent(t *testing.T) {
	f, path := newJournal(t)
	var keys []string
	mux := http.NewServeMux()
	service := httptest.NewServer(mux)
	defer service.Close()
	mux.Handle("/old", http.RedirectHandler("/new", http.StatusTemporaryRedirect))
	mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if open := openIn(t, path); !slices.Equal(open, []string{"k"}) {
			t.Errorf("open: %v", open)
		}
		if len(keys) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	resp, err := ask(t, journaled(f, nil), "k", service.URL+"/old")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if r, err := journal.Resume(t.Context(), f, journaled(f, nil), journal.Options{}); err != nil || r.Closed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if !slices.Equal(keys, []string{"k", "k", "k"}) || len(openIn(t, path)) != 0 {
		t.Errorf("keys %v, open %v", keys, openIn(t, path))
	}
}

// TestExpiredIntent: an intent whose key is too old is not sent again, with its key or
// another one, until a person has said what became of it.
func TestExpiredIntent(t *testing.T) {
	f, path := newJournal(t)
	old, err := f.Begin(t.Context(), journal.Intent{Key: "k", Method: http.MethodPost, URL: "http://service.example/refunds", Body: []byte("body of k"), Since: time.Now().Add(-25 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.End(t.Context(), old, journal.ProofNone); err != nil {
		t.Fatal(err)
	}
	s := &served{base: always(200)}
	client := journaled(f, s)
	var e *retry.Error
	for range 2 { // from the age, then because it is held
		if _, err := ask(t, client, "k", "http://service.example/refunds"); !errors.As(err, &e) || e.Reason != retry.ReasonExpired || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%v", err)
		}
	}
	if r, err := journal.Resume(t.Context(), f, client, journal.Options{}); err != nil || r != (journal.Resumed{Held: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
	if n := len(s.requests()); n != 0 || len(openIn(t, path)) != 1 {
		t.Errorf("sent %d times, open: %v", n, openIn(t, path))
	}
	if err := f.Resolve(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	resp, err := ask(t, client, "k", "http://service.example/refunds")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// TestTwoCallsWithOneIntent: of two calls with one intent neither closes what the other may have done.
func TestTwoCallsWithOneIntent(t *testing.T) {
	for _, c := range []struct {
		second error
		open   bool
	}{{&net.OpError{Op: "dial", Err: errors.New("refused")}, false}, {io.ErrUnexpectedEOF, true}} {
		f, path := newJournal(t)
		arrived, goOn := make(chan struct{}), make(chan struct{})
		first := journaled(f, base(func(int, *http.Request) (*http.Response, error) {
			arrived <- struct{}{}
			<-goOn
			return answer(401), nil
		}))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if resp, err := ask(t, first, "k", "http://service.example/"); err == nil {
				resp.Body.Close()
			}
		}()
		<-arrived
		if _, err := ask(t, journaled(f, base(func(int, *http.Request) (*http.Response, error) { return nil, c.second })), "k", "http://service.example/"); err == nil {
			t.Error("answered")
		}
		if len(openIn(t, path)) != 1 {
			t.Error("closed by the second one, while the first one is under way")
		}
		close(goOn)
		<-ended
		if got := len(openIn(t, path)) == 1; got != c.open {
			t.Errorf("after %v: open %v", c.second, got)
		}
	}
}

// TestTooLong: a body that a journal does not take is not sent.
func TestTooLong(t *testing.T) {
	f, path := newJournal(t)
	client := journaled(f, base(func(int, *http.Request) (*http.Response, error) {
		t.Error("sent")
		return answer(200), nil
	}))
	ctx := retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k"})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example/", io.LimitReader(endless{}, 32<<20+1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(req); err == nil || !strings.Contains(err.Error(), "Try: ") || len(openIn(t, path)) != 0 {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestAdvertisedRetention: what a server says about its retention outlives the process.
func TestAdvertisedRetention(t *testing.T) {
	f, path := newJournal(t)
	resp, err := ask(t, journaled(f, always(503, "Idempotency-Retention", "600")), "k", "http://service.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	list, _, err := journal.Read(path)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if left := list[0].Expires.Sub(list[0].Since); left > 10*time.Minute || left < 8*time.Minute {
		t.Errorf("expires after %v", left)
	}
}

// TestCancelledBeforeSending: a caller who has given up before anything left leaves
// nothing behind.
func TestCancelledBeforeSending(t *testing.T) {
	f, path := newJournal(t)
	ctx, cancel := context.WithCancel(retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k"}))
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example/", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	tr := &retryhttp.Transport{Journal: f, Base: base(func(int, *http.Request) (*http.Response, error) {
		t.Error("sent")
		return answer(200), nil
	})}
	if _, err := tr.RoundTrip(req); !errors.Is(err, context.Canceled) || len(openIn(t, path)) != 0 {
		t.Errorf("%v, open: %v", err, openIn(t, path))
	}
}
