package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/sqlstore"
)

// leftOpen makes the journal of a client that was killed after it had asked url for
// something under each key, and for something a day ago under "old".
func leftOpen(t *testing.T, url string, keys ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "intents")
	f, err := journal.Open(path, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		in := journal.Intent{Key: key, Method: http.MethodPost, URL: url, Body: []byte("secret body"), Since: time.Now()}
		if key == "old" {
			in.Since = time.Now().Add(-48 * time.Hour)
		}
		in.Expires = in.Since.Add(24 * time.Hour)
		if _, err := f.Begin(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestJournalIsListedAndSentAgain: an operator lists what a dead client has left, sends it again, and says
// what became of the rest.
func TestJournalIsListedAndSentAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("X-More") != "yes" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		seen[r.Header.Get("Idempotency-Key")]++
	}))
	defer service.Close()
	path := leftOpen(t, service.URL+"/refunds", "k1", "k2", "old")
	o := run(t, "journal", "list", "--file", path).want(t, 0)
	if lines := strings.Split(o.stdout, "\n"); len(lines) != 5 || !strings.Contains(lines[1], "k1   open") || !strings.Contains(lines[3], "old  expired") || strings.Contains(o.stdout, "secret") {
		t.Errorf("%s", o.stdout)
	}
	var list struct {
		Items []struct {
			BodyBytes int `json:"body_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(run(t, "journal", "list", "--file", path, "-o", "json").want(t, 0).stdout), &list); err != nil || len(list.Items) != 3 || list.Items[0].BodyBytes != 11 {
		t.Errorf("%+v, %v", list, err)
	}
	o = run(t, "journal", "resume", "--file", path).want(t, 1)
	if !strings.Contains(o.stdout, "k1  401 Unauthorized") || !strings.Contains(o.stdout, "0 closed, 2 still open, 1 held") || !strings.Contains(o.stderr, "\nTry: ") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	token := filepath.Join(t.TempDir(), "header")
	if err := os.WriteFile(token, []byte("X-More: yes\n\nauthorization: Bearer token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o = run(t, "journal", "resume", "--file", path, "--header", "@"+token, "-o", "json").want(t, 1)
	var a struct {
		Closed, Open, Held int
		Answers            []struct{ Key string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &a); err != nil || a.Closed != 2 || a.Open != 0 || a.Held != 1 || len(a.Answers) != 2 || !strings.Contains(o.stderr, "once journal resolve KEY") {
		t.Errorf("%s%s, %v", o.stdout, o.stderr, err)
	}
	if len(seen) != 2 || seen["k1"] != 1 || seen["k2"] != 1 {
		t.Errorf("the service saw %v", seen)
	}
	if o = run(t, "journal", "list", "--file", path).want(t, 0); !strings.Contains(o.stdout, "held") || strings.Contains(o.stdout, "k1") {
		t.Errorf("%s", o.stdout)
	}
	if o = run(t, "journal", "resolve", "nobody", "--file", path, "--as", "applied").want(t, 1); !strings.Contains(o.stderr, "\nTry: once journal list") {
		t.Errorf("%s", o.stderr)
	}
	if o = run(t, "journal", "resolve", "old", "--file", path, "--as", "not-applied").want(t, 0); !strings.Contains(o.stdout, "would close as not-applied: POST ") || !strings.Contains(run(t, "journal", "list", "--file", path).stdout, "old") {
		t.Errorf("%s", o.stdout)
	}
	if o = run(t, "journal", "resolve", "old", "--file", path, "--as", "not-applied", "--yes").want(t, 0); !strings.Contains(o.stdout, "sends a new request with a new key") {
		t.Errorf("%s", o.stdout)
	}
	o = run(t, "journal", "resume", "--file", path).want(t, 0)
	if o.stdout != "0 closed, 0 still open, 0 held for the decision of an operator\n" {
		t.Errorf("%s", o.stdout)
	}
}

// TestJournalInADatabase: the same for clients that share a database.
func TestJournalInADatabase(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer service.Close()
	onEach(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "sqlite:") { // there is no table yet
			run(t, "journal", "list", "--db", url).want(t, 4)
		}
		run(t, "migrate", "up", "--db", url).want(t, 0)
		db, err := cli.OpenDatabase(t.Context(), url, false)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, err := sqlstore.New(t.Context(), db.DB, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		j, err := journal.OpenTable(s, journal.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"k1", "lost"} {
			query, args, err := j.Insert(journal.Intent{Key: key, Method: http.MethodPost, URL: service.URL, Body: []byte("body")})
			if err == nil {
				_, err = db.ExecContext(t.Context(), query, args...)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if o := run(t, "journal", "list", "--db", url).want(t, 0); !strings.Contains(o.stdout, "lost  open") {
			t.Errorf("%s", o.stdout)
		}
		run(t, "journal", "resolve", "lost", "--as", "applied", "--yes", "--db", url).want(t, 0)
		if o := run(t, "journal", "resume", "--db", url).want(t, 0); !strings.Contains(o.stdout, "k1  200 OK") || !strings.Contains(o.stdout, "1 closed, 0 still open") {
			t.Errorf("%s", o.stdout)
		}
	})
}

// TestJournalRefuses: what would do harm is refused, and says what to do.
func TestJournalRefuses(t *testing.T) {
	t.Parallel()
	path := leftOpen(t, "http://127.0.0.1:1/", "k")
	missing := filepath.Join(t.TempDir(), "intents")
	for _, c := range []struct{ args, says string }{
		{"list --file " + missing, "no such file"},
		{"resume --file " + missing, "no such file"},
		{"resume --file " + path, "connection refused"},
	} {
		o := run(t, append([]string{"journal"}, strings.Fields(c.args)...)...).want(t, 1)
		if !strings.Contains(o.stderr, c.says) || !strings.Contains(o.stderr, "\nTry: ") {
			t.Errorf("%s: %s", c.args, o.stderr)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a journal was made")
	}
	f, err := journal.Open(path, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o := run(t, "journal", "resume", "--file", path).want(t, 1)
	if !strings.Contains(o.stderr, "another process has") || !strings.Contains(o.stderr, "\nTry: ") {
		t.Errorf("%s", o.stderr)
	}
	run(t, "journal", "list", "--file", path).want(t, 0)
	_ = f.Close()
	for _, args := range []string{"journal", "journal list", "journal resolve", "journal resolve k --file x", "journal resolve k --as done --file x", "journal list --file x -o xml", "journal resume --file x --header secret", "journal list", "journal list --file x --db sqlite:x"} {
		if o := run(t, strings.Fields(args)...).want(t, 2); !strings.Contains(o.stderr, "\nTry: ") {
			t.Errorf("%s: %s", args, o.stderr)
		}
	}
}

// TestJournalResumeKeepsTheTime: until when a key may be sent is what the client has
// written down. No default makes it shorter, and nothing makes it longer.
func TestJournalResumeKeepsTheTime(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusNotImplemented)
		}
	}))
	defer service.Close()
	path := filepath.Join(t.TempDir(), "intents")
	f, err := journal.Open(path, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now().Add(-30 * time.Hour).UTC()
	for key, expires := range map[string]time.Time{"kept": since.Add(72 * time.Hour), "over": since.Add(24 * time.Hour), "plan": {}} {
		in := journal.Intent{Key: key, Method: http.MethodPost, URL: service.URL, Since: since, Expires: expires}
		if _, err := f.Begin(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	states := func() map[string]string {
		var list struct {
			Items []struct {
				Key, State string
				Since      time.Time
				ExpiresAt  time.Time `json:"expires_at"`
			}
		}
		o := run(t, "journal", "list", "--file", path, "-o", "json").want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for _, in := range list.Items {
			m[in.Key] = in.State
			if !in.ExpiresAt.IsZero() {
				m[in.Key] += " " + in.ExpiresAt.Sub(in.Since).String()
			}
		}
		return m
	}
	o := run(t, "journal", "resume", "--file", path).want(t, 1)
	if want := map[string]string{"kept": "open 72h0m0s", "over": "held 24h0m0s", "plan": "open"}; !maps.Equal(states(), want) || !strings.Contains(o.stdout, "kept  501") || strings.Contains(o.stdout, "plan") || !strings.Contains(o.stderr, "--retention") {
		t.Errorf("%v\n%s%s", states(), o.stdout, o.stderr)
	}
	down.Store(false)
	o = run(t, "journal", "resume", "--file", path, "--retention", "72h").want(t, 1)
	if want := map[string]string{"over": "held 24h0m0s"}; !maps.Equal(states(), want) || !strings.Contains(o.stdout, "kept  200") || !strings.Contains(o.stdout, "plan  200") {
		t.Errorf("%v\n%s%s", states(), o.stdout, o.stderr)
	}
	run(t, "journal", "resume", "--file", path, "--retention", "-1h").want(t, 2)
}
