package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/cmd/once/internal/process"
)

func TestMain(m *testing.M) {
	process.Guard()
	os.Exit(m.Run())
}

// run runs the command line.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	m := &cli.Env{Stdout: &out, Stderr: &err, Nouns: []cli.Noun{Noun, migrate.Noun}, Getenv: func(string) string { return "" }}
	// migrate is there for its group, which the frame needs.
	code = m.Run(t.Context(), append([]string{"check"}, args...))
	return code, out.String(), err.String()
}

// TestTheDemoHasNoFinding: what once demo serve serves keeps its keys, in its own dialect and in Stripe's.
func TestTheDemoHasNoFinding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dialect, preset, other, path, request string }{
		{"", "draft", "Authorization: Bearer zoe", "/charges", `-H|Authorization: Bearer acme|--json|{"amount":5000,"currency":"EUR","customer":"ada"}`},
		{payments.StripeV1, "stripe", "Authorization: Bearer sk_test_zoe", "/v1/charges", "-u|sk_test_acme:|-d|amount=5000|-d|currency=eur"},
	} {
		db, err := payments.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "payments.db"))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(payments.NewServer(db, payments.Config{Dialect: c.dialect, Log: slog.New(slog.DiscardHandler)}))
		args := []string{"--preset", c.preset, "--as", c.other, "-o", "json", "--", "curl", server.URL + c.path}
		code, stdout, stderr := run(t, append(args, strings.Split(c.request, "|")...)...)
		server.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		var r probe.Report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Blind || r.Requests < 50 || r.Requests > 120 {
			t.Errorf("%s: %d, %v\n%s%s", c.preset, code, err, stdout, stderr)
		}
		for _, f := range r.Findings {
			if f.Level != probe.Note || c.dialect == "" {
				t.Errorf("%s: %+v", c.preset, f)
			}
		}
		if c.dialect == "" && !strings.Contains(stderr, "at most 97 requests, of which about 24 take effect") {
			t.Errorf("it does not say before what it does: %s", stderr)
		}
	}
}

// naive executes each request, and answers with a number.
type naive struct{ requests, effects atomic.Int64 }

func (n *naive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.requests.Add(1)
	if r.Method == http.MethodGet {
		fmt.Fprintln(w, n.effects.Load())
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		fmt.Fprintf(w, `{"id":%d,"echo":%q}`, n.effects.Add(1), r.Header)
	}
}

// TestNoCredentialIsPrinted: neither those of the request, nor those of the other caller, whatever the form, and however it ends.
func TestNoCredentialIsPrinted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(new(naive))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "charge.http")
	if err := os.WriteFile(file, []byte("POST "+server.URL+"/charges?token=sesame\nAuthorization: Bearer sesame\n\n{\"amount\":5000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	request := []string{"--", "curl", server.URL + "/charges?token=sesame", "-u", "sesame:sesame", "-b", "sesame=1", "--json", `{"amount":5000}`}
	for _, c := range []struct {
		code int
		args []string
	}{
		{1, request},
		{1, []string{file}},
		{1, append([]string{"-o", "jsonl"}, request...)},
		{1, append([]string{"--as", "Authorization: sesame"}, request...)},
		{0, append([]string{"--plan"}, request...)},
		{0, append([]string{"--plan", "-o", "json"}, request...)},
		{2, append([]string{"--as", "sesame"}, request...)},
		{2, append([]string{"--effects", "!echo sesame"}, request...)},
		{2, append([]string{"--effects", "!echo sesame >&2; exit 1"}, request...)},
		{2, append([]string{"--effects", server.URL + "/count/sesame?sesame\x7f"}, request...)},
		{2, append(request, "sesame")},
		{2, []string{"--", "curl", "http://sesame:sesame@192.0.2.1/?sesame", "-d", "x"}},
		{2, []string{"--", "curl", "http://127.0.0.1:1/?sesame", "-u", "sesame:", "-d", "x"}},
	} {
		code, stdout, stderr := run(t, c.args...)
		if code != c.code || strings.Contains(stdout+stderr, "sesame") {
			t.Errorf("%q: %d\n%s%s", c.args, code, stdout, stderr)
		}
		if code == 2 && !strings.Contains(stderr, "\nTry: ") {
			t.Errorf("%q: %s", c.args, stderr)
		}
	}
}

// TestFormsOfAFinding: a finding has its cause, what was seen and what to try, and each form is one that scripts can read.
func TestFormsOfAFinding(t *testing.T) {
	t.Parallel()
	n := new(naive)
	server := httptest.NewServer(n)
	defer server.Close()
	request := []string{"--effects", server.URL + "/count", "--", "curl", server.URL + "/charges", "--json", `{"amount":5000}`}
	code, stdout, _ := run(t, request...)
	for _, says := range []string{"violation  ignored\n  In the check \"a retry gets the stored answer\", the API made 1 effect, and not 0.\n  Try: commit the key", "3 checks, 3 requests, 3 effects: 1 violation, 0 deviations, 0 notes.\n", "skipped    concurrent: an earlier finding explains the result of this check\n"} {
		if code != 1 || !strings.Contains(stdout, says) {
			t.Errorf("%d, not %q:\n%s", code, says, stdout)
		}
	}
	code, stdout, _ = run(t, append([]string{"-o", "jsonl"}, request...)...)
	var f probe.Finding
	if err := json.Unmarshal([]byte(stdout), &f); err != nil || code != 1 || strings.Count(stdout, "\n") != 1 || f.Cause != "ignored" || f.Try == "" {
		t.Errorf("%d, %v: %s", code, err, stdout)
	}
	before := n.requests.Load()
	var p plan
	code, stdout, _ = run(t, append([]string{"--plan", "-o", "json"}, request...)...)
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || code != 0 || len(p.Items) < 20 || p.Requests == 0 || p.Effects == 0 || n.requests.Load() != before {
		t.Errorf("%d, %v, %d requests: %s", code, err, n.requests.Load()-before, stdout)
	}
}

// TestBlindIsNoPass: where two keys get the same bytes and nothing counts, the exit code is 2.
func TestBlindIsNoPass(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && r.Header.Get("Idempotency-Key") == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	code, stdout, stderr := run(t, "--", "curl", server.URL, "-X", "POST")
	if code != 2 || !strings.Contains(stdout, "0 violations, 0 deviations") || !strings.Contains(stderr, "do not show the number of effects.\nTry: --effects") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
}

// TestUsageErrorsSayWhatToTry: what cannot be meant so is answered with 2, and with what to try.
func TestUsageErrorsSayWhatToTry(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"the request is missing":              nil,
		"has no curl command":                 {"POST", "http://localhost"},
		"no such file":                        {"none.http"},
		"\"soap\" does not exist":             {"--preset", "soap", "--", "curl", "localhost", "-d", "x"},
		"not support the curl option --form":  {"--", "curl", "localhost", "--form", "x=1"},
		"--after -1s is a time in the past":   {"--after", "-1s", "--", "curl", "localhost", "-d", "x"},
		"sent no request.\nTry: --i-own":      {"--", "curl", "api.example.com", "-d", "x"},
		"192.0.2.1 is another machine":        {"--effects", "http://192.0.2.1/", "--", "curl", "localhost", "-d", "x"},
		"neither a URL nor a command":         {"--effects", "psql", "--", "curl", "localhost", "-d", "x"},
		"127.0.0.1:1 cannot be reached: dial": {"--", "curl", "127.0.0.1:1", "-d", "x"},
	} {
		code, stdout, stderr := run(t, args...)
		if code != 2 || !strings.Contains(stderr, says) || !strings.Contains(stderr, "\nTry: ") || stdout != "" {
			t.Errorf("%q: %d\n%s%s", args, code, stdout, stderr)
		}
	}
}
