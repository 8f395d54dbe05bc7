package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/recorded"
)

// keyOf writes a file with the key of an Encrypter.
func keyOf(t *testing.T, fill byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(bytes.Repeat([]byte{fill}, 32))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// send sends a charge of acme, with secrets.
func send(t *testing.T, to, key, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to+"/charges?note=%2f%22", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer acme", "Idempotency-Key": key, "X-Api-Key": "secret", "X-Session": "secret", "X-Tier": "gold",
		"Cookie": "session=secret", "Content-Type": "application/json", "User-Agent": "till/7",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s", resp.Status)
	}
}

// charged is a charge that the demo's service has kept, exported to a file.
func charged(t *testing.T) (service, db, file string) {
	t.Helper()
	db, file = sqliteURL(t), filepath.Join(t.TempDir(), "request.json")
	key := keyOf(t, 7)
	_, said := serving(t, "--db", db, "--key-file", key)
	send(t, said["serving"], "charge-1", oneCharge)
	run(t, "keys", "export", "charge-1", "--scope", "acme POST /charges", "--db", db, "--key-file", key, "--file", file, "--redact", "x-session", "--by", "ada").want(t, 0)
	return said["serving"], db, file
}

const oneCharge = "{\"amount\":5000,\t\"currency\":\"EUR\", \"customer\":\"ada\"}\n"

func parsed(t *testing.T, file string) (r recorded.Request) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret") {
		t.Errorf("%s", text)
	}
	if r, err = recorded.Parse(text); err != nil {
		t.Fatal(err)
	}
	return r
}

// save writes a request that was changed.
func save(t *testing.T, file string, r recorded.Request) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestExportLeavesSecretsOut: the file has the exact request without its secrets, only its owner can read it, and
// the audit says who has exported it.
func TestExportLeavesSecretsOut(t *testing.T) {
	t.Parallel()
	service, url, file := charged(t)
	checkMode(t, file)
	r := parsed(t, file)
	if string(r.Body) != oneCharge || r.Method != http.MethodPost || r.Path != "/charges?note=%2f%22" || "http://"+r.Host != service || r.Headers.Get("X-Tier") != "gold" || r.Headers.Get("Idempotency-Key") != "charge-1" {
		t.Errorf("%+v", r)
	}
	if got := strings.Join(r.Redacted, " "); got != "X-Api-Key X-Session" { // Authorization and Cookie are not kept at all
		t.Errorf("redacted: %s", got)
	}
	if o := r.Operation; o.Scope != "acme POST /charges" || o.Key != "charge-1" || o.Status != 201 || o.Fingerprint == "" || o.State != "done" || o.Since.IsZero() || r.ID == "" || r.ExportedAt.IsZero() {
		t.Errorf("%+v", r)
	}
	db := open(t, url)
	page, err := operate.NewKeys(db.Store).Audit(t.Context(), operate.AuditFilter{})
	entries := page.Items
	if err != nil || len(entries) != 1 || entries[0].Who != "ada" || entries[0].Action != "show" || entries[0].Detail != "its request, exported" {
		t.Errorf("%+v, %v", entries, err)
	}
	db.do(t, "acme", "k")
	for args, want := range map[string]string{
		"charge-1 --file " + file + " --key-file " + keyOf(t, 7): "Try: use --file with another name",
		"charge-1 --key-file " + keyOf(t, 8):                     "Try: --key-file with the key that the service had",
		"charge-9 --key-file " + keyOf(t, 7):                     "Try: once keys show KEY",
		"charge-1 --scope other --key-file " + keyOf(t, 7):       "Try: once keys show KEY",
		"k --key-file " + keyOf(t, 7):                            "Try: set CaptureRequest",
		"charge-1":                                               "--key-file is missing",
	} {
		o := run(t, append([]string{"keys", "export", "--db", url}, strings.Fields(args)...)...)
		if o.code == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// TestExportOnEveryDatabase: a request is read and decrypted, also if only the hash of its key is stored. A request that
// did not come over HTTP is not exported.
func TestExportOnEveryDatabase(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db, dir := open(t, url), t.TempDir()
		encrypter, err := once.NewEncrypter(bytes.Repeat([]byte{7}, 32))
		if err != nil {
			t.Fatal(err)
		}
		e := once.New(db.Store, once.Config{Encrypter: encrypter, HashKeys: true})
		for key, request := range map[string]string{"k": "PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\n\x00b", "job": "{}"} {
			op := once.Operation{Scope: "s", Key: key, Request: []byte(request)}
			if _, err := once.Do(t.Context(), e, op, func(context.Context, *sql.Tx) (int, error) { return 7, nil }); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, "k.json")
		o := run(t, "keys", "export", "k", "--db", url, "--key-file", keyOf(t, 7), "--file", file).want(t, 0)
		if r := parsed(t, file); string(r.Body) != "\x00b" || r.Host != "a.example" || r.Operation.Key != keyname.Hashed("k") || !strings.HasSuffix(o.stdout, "  PUT /, 2 bytes\n") {
			t.Errorf("%+v\n%s", r, o.stdout)
		}
		if o := run(t, "keys", "export", "job", "--db", url, "--key-file", keyOf(t, 7), "--file", file+"2").want(t, 1); !strings.Contains(o.stderr, "not captured by package oncehttp") {
			t.Errorf("%+v", o)
		}
	})
}

// TestReplayReproducesARace: of eight copies of an exported request, at the same moment at another service, one has an effect, and
// seven are told its answer, to the byte.
func TestReplayReproducesARace(t *testing.T) {
	t.Parallel()
	_, _, file := charged(t)
	other := sqliteURL(t)
	_, said := serving(t, "--db", other, "--wait", "30s")
	line := []string{"keys", "replay", file, "--to", said["serving"], "--concurrency", "8", "--header", "Authorization: Bearer acme"}
	o := run(t, append(line, "-o", "json")...).want(t, 0)
	var r struct {
		ID                       string
		Sent, Executed, Replayed int
		BodiesEqual              bool `json:"bodies_equal"`
		Answers                  []struct {
			BodySHA256 string `json:"body_sha256"`
		}
	}
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || r.Sent != 8 || r.Executed != 1 || r.Replayed != 7 || !r.BodiesEqual || r.ID != parsed(t, file).ID || len(r.Answers) != 8 {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if !strings.Contains(o.stderr, "X-Api-Key") {
		t.Errorf("%s", o.stderr)
	}
	var charges int
	if err := open(t, other).QueryRowContext(t.Context(), "select count(*) from charge").Scan(&charges); err != nil || charges != 1 {
		t.Errorf("%d charges, %v", charges, err)
	}
	text := run(t, append(line, "--times", "2")...).want(t, 0).stdout
	if !strings.HasSuffix(text, "16 requests sent to "+said["serving"]+": 0 executed, 16 replayed, 0 refused, 0 without an answer; bodies equal\n") || strings.Count(text, "201     replayed  "+r.Answers[0].BodySHA256[:16]+"  yes\n") != 16 {
		t.Errorf("%s", text)
	}
}

// TestReplaySendsExactBytes: what another service gets is the recorded request, to the byte, marked as a replay; headers
// can be given and taken away, and redirects are not followed.
func TestReplaySendsExactBytes(t *testing.T) {
	t.Parallel()
	_, _, file := charged(t)
	var mu sync.Mutex
	got := map[string]*http.Request{}
	var bodies []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
		got[r.RequestURI] = r
		if strings.HasPrefix(r.RequestURI, "/away") {
			http.Redirect(w, r, "/elsewhere", http.StatusSeeOther)
		}
		_, _ = w.Write([]byte(strings.Repeat("x", len(bodies)))) // another one each time
	}))
	defer target.Close()
	replay := func(code int, args ...string) output {
		t.Helper()
		return run(t, append([]string{"keys", "replay", file, "--to"}, args...)...).want(t, code)
	}
	replay(0, target.URL)
	replay(0, target.URL+"/v2/", "--header", "X-Tier:", "--header", "X-Api-Key: test", "--header", "user-agent: me", "--header", "Once-Replay-Of: nothing")
	if o := replay(0, target.URL+"/away"); !strings.Contains(o.stdout, ": 0 executed, 0 replayed, 1 refused") {
		t.Errorf("a redirect: %+v", o)
	}
	if len(bodies) != 3 || bodies[0] != oneCharge || bodies[1] != oneCharge {
		t.Fatalf("%q", bodies)
	}
	id := parsed(t, file).ID
	plain, changed := got["/charges?note=%2f%22"], got["/v2/charges?note=%2f%22"]
	if plain == nil || changed == nil {
		t.Fatalf("%v", got)
	}
	wanted := http.Header{
		"Idempotency-Key": {"charge-1"}, "X-Tier": {"gold"}, "Content-Type": {"application/json"}, "User-Agent": {"till/7"}, "Accept-Encoding": {"gzip"},
		"Once-Replay-Of": {id}, "Content-Length": {strconv.Itoa(len(oneCharge))},
	}
	for name := range plain.Header {
		if plain.Header.Get(name) != wanted.Get(name) {
			t.Errorf("%s: %q, want %q", name, plain.Header[name], wanted[name])
		}
	}
	if len(plain.Header) != len(wanted) || "http://"+plain.Host != target.URL {
		t.Errorf("%s %v", plain.Host, plain.Header)
	}
	if h := changed.Header; h.Values("X-Tier") != nil || h.Get("X-Api-Key") != "test" || h.Get("User-Agent") != "me" || h.Get("Once-Replay-Of") != id {
		t.Errorf("%v", h)
	}
	o := replay(1, target.URL, "--times", "2")
	if !strings.Contains(o.stderr, "the service executed 2 requests with the same key") || !strings.Contains(o.stdout, "; bodies DIFFER\n") {
		t.Errorf("%+v", o)
	}
	if o := replay(1, "http://127.0.0.1:1"); !strings.Contains(o.stderr, "1 request got no answer") {
		t.Errorf("%+v", o)
	}
}

// TestReplayPrintsNoEscapes: neither a file nor a service moves the cursor of the terminal.
func TestReplayPrintsNoEscapes(t *testing.T) {
	t.Parallel()
	_, _, file := charged(t)
	r := parsed(t, file)
	r.Redacted = []string{"X-\x1b[2J", "X-'\u009b1A"}
	file = filepath.Join(t.TempDir(), "request.json")
	save(t, file, r)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\x1b[2J\u009b1A\r\n\r\n"))
		_ = conn.Close()
	}))
	defer target.Close()
	o := run(t, "keys", "replay", file, "--to", target.URL).want(t, 1)
	if strings.ContainsAny(o.stdout+o.stderr, "\x1b\u009b") || strings.Count(o.stderr, "was left out") != 2 || !strings.Contains(o.stdout, `\x1b[2J`) {
		t.Errorf("%q\n%q", o.stdout, o.stderr)
	}
}

// TestReplayRefusesTheRecordedHost: by its name and by its addresses; nothing is sent there.
func TestReplayRefusesTheRecordedHost(t *testing.T) {
	t.Parallel()
	_, _, file := charged(t)
	var arrived atomic.Int32
	recorder := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer recorder.Close()
	service := recorder.URL
	r := parsed(t, file)
	r.Host = strings.TrimPrefix(service, "http://")
	_, port, _ := strings.Cut(r.Host, ":")
	file = filepath.Join(t.TempDir(), "request.json")
	save(t, file, r)
	for _, to := range []string{service, service + "/v2", "http://localhost:" + port, "https://LOCALHOST.:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port} {
		o := run(t, "keys", "replay", file, "--to", to).want(t, 1)
		if !strings.Contains(o.stderr, "does not send the request to the same host") || !strings.Contains(o.stderr, "\nTry: --to ") {
			t.Errorf("%s: %+v", to, o)
		}
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d replays arrived", n)
	}
	for args, want := range map[string]string{
		"":                                      "the FILE is missing",
		file:                                    "--to is missing",
		file + " --to x":                        "not the http or https URL",
		file + " --to http://u:secret@x/":       "not the http or https URL",
		file + " --to http://x --concurrency 0": "--concurrency 0",
		file + " --to http://x --concurrency 1000 --times 1000":    "--times 1000",
		file + " --to http://x --concurrency 9000000000000000000 ": "--times 1",
		file + " --to http://x -o text":                            "-o table",
	} {
		o := run(t, append([]string{"keys", "replay"}, strings.Fields(args)...)...).want(t, 2)
		if !strings.Contains(o.stderr, want) || strings.Contains(o.stderr, "secret") {
			t.Errorf("%s: %s", args, o.stderr)
		}
	}
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, []byte(`{"format":"once-request","version":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := run(t, "keys", "replay", other, "--to", "http://x").want(t, 1); !strings.Contains(o.stderr, "version 2") {
		t.Errorf("%+v", o)
	}
}
