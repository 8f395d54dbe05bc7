package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/retry/journal"
)

// TestJournalTellsOneHostASecret: what is given with --header goes to one host, chosen with
// --host where there are several, and to none that it redirects to.
func TestJournalTellsOneHostASecret(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := map[string]string{}
	heard := func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(told)
	}
	serve := func(name, redirect string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			told[name] = "nothing"
			if key := r.Header.Get("X-Key"); key != "" {
				told[name] = key
			}
			if redirect != "" {
				http.Redirect(w, r, redirect, http.StatusTemporaryRedirect)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	elsewhere := serve("elsewhere", "")
	ours, theirs := serve("ours", elsewhere), serve("theirs", "")
	path := filepath.Join(t.TempDir(), "intents")
	f, err := journal.Open(path, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, url := range []string{ours, theirs, theirs + "/more"} {
		if _, err := f.Begin(t.Context(), journal.Intent{Key: fmt.Sprint("k", i), Method: http.MethodPost, URL: url, Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(ours, "http://")
	o := run(t, "journal", "resume", "--file", path, "--header", "X-Key: s3cr3t").want(t, 2)
	if !strings.Contains(o.stderr, "\nTry: --host ") || !strings.Contains(o.stderr, host) || strings.Contains(o.stderr, "s3cr3t") || len(heard()) != 0 {
		t.Errorf("%s%v", o.stderr, heard())
	}
	o = run(t, "journal", "resume", "--file", path, "--header", "X-Key: s3cr3t", "--host", host).want(t, 0)
	if fmt.Sprint(heard()) != "map[elsewhere:nothing ours:s3cr3t]" || !strings.Contains(o.stdout, "1 closed, 0 still open, 0 held") {
		t.Errorf("%v: %s", heard(), o.stdout)
	}
	o = run(t, "journal", "resume", "--file", path, "--header", "X-Key: s3cr3t", "--host", host).want(t, 0)
	if heard()["theirs"] != "" || !strings.Contains(o.stderr, "The journal has no open intent for "+host) {
		t.Errorf("%v: %s%s", heard(), o.stdout, o.stderr)
	}
	o = run(t, "journal", "resume", "--file", path, "--header", "X-Key: theirs").want(t, 0) // the only one that is left
	if heard()["theirs"] != "theirs" || !strings.Contains(o.stdout, "2 closed") {
		t.Errorf("%v: %s", heard(), o.stdout)
	}
	run(t, "journal", "resume", "--file", path, "--header", "X-Key: theirs").want(t, 0)
}

// TestJournalResumeIsNoStorm: a server that is down is not asked for everything.
func TestJournalResumeIsNoStorm(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		w.Header().Set("Stripe-Should-Retry", "false")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer service.Close()
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	path := leftOpen(t, service.URL, keys...)
	o := run(t, "journal", "resume", "--file", path).want(t, 1)
	if seen.Load() != 11 || !strings.Contains(o.stdout, "0 closed, 40 still open (29 of the open requests were not sent, because their server fails), 0 held") || !strings.Contains(o.stderr, "\nTry: run the same command again when the server works") {
		t.Errorf("%d requests: %s%s", seen.Load(), o.stdout, o.stderr)
	}
}
