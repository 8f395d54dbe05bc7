package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// keyless is a service that knows nothing of keys. It counts what takes effect.
type keyless struct {
	*httptest.Server

	effects atomic.Int64
	arrived chan struct{} // one for each request of /slow
	release chan struct{} // ends one of them, or all if it is closed
	settled chan string   // operations that were settled at the endpoint for receipts
	book    *sql.DB       // of /book, which commits a receipt with its effect, and answers nothing
}

func newKeyless(t *testing.T) *keyless {
	t.Helper()
	s := &keyless{arrived: make(chan struct{}, 10), release: make(chan struct{}), settled: make(chan string, 10)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *keyless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/once-receipt/") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"operation": %q, "state": "committed", "status": 201, "body": "cmVjZWlwdA=="}`, path.Base(r.URL.Path))
		s.settled <- r.Method
		return
	}
	if r.URL.Path == "/book" {
		_, err := s.book.ExecContext(r.Context(), "insert into once_receipt (operation, fingerprint, status, body) values ($1, $2, 201, $3)",
			r.Header.Get("Once-Operation"), r.Header.Get("Once-Fingerprint"), []byte("booked"))
		if err == nil {
			s.effects.Add(1)
		}
		panic(http.ErrAbortHandler)
	}
	n := s.effects.Add(1)
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path == "/slow" {
		s.arrived <- struct{}{}
		select {
		case <-s.release:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Trailer", "Digest")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "effect %d", n)
	w.Header().Set("Digest", "d")
}

// gatewayProcess is a gateway that runs.
type gatewayProcess struct {
	cmd           *exec.Cmd
	public, admin string
	log           <-chan string
}

// startGateway starts one that reads a file.
func startGateway(t *testing.T, file string) *gatewayProcess {
	t.Helper()
	cmd := program(t, "gateway", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := make(chan string, 10_000)
	go func() {
		defer close(log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log <- lines.Text()
		}
	}()
	said := linesUntil(t, stdout, "serving")
	if said["serving"] == "" {
		for line := range log {
			t.Error(line)
		}
		t.FailNow()
	}
	return &gatewayProcess{cmd, said["serving"], said["admin"], log}
}

// logged returns what is logged up to a line with a text.
func (g *gatewayProcess) logged(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range g.log {
		b.WriteString(line + "\n")
		if strings.Contains(line, text) {
			return b.String()
		}
	}
	t.Fatalf("it has ended and has not logged %q:\n%s", text, b.String())
	return ""
}

func (g *gatewayProcess) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// answer is what a request has come to.
type answer struct {
	status int
	how    string // Idempotency-Status
	body   string
	err    error
}

func (a answer) String() string {
	return fmt.Sprintf("%d %q %.300q %v", a.status, a.how, a.body, a.err)
}

// isolated has no connection that an earlier process has closed.
var isolated = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// sendKeyed sends a request with a key from the tenant ada.
func sendKeyed(t *testing.T, client *http.Client, to, key string) answer {
	t.Helper()
	return sendAs(t, client, "ada", to, key)
}

// sendAs sends a request with a key from a tenant.
func sendAs(t *testing.T, client *http.Client, tenant, to, key string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, to, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-Tenant", tenant)
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Idempotency-Status"), string(body), err}
}

// sendLater sends a request, and returns when the service has it.
func (s *keyless) sendLater(t *testing.T, to, key string) <-chan answer {
	t.Helper()
	answered := make(chan answer, 1)
	go func() { answered <- sendKeyed(t, isolated, to, key) }()
	<-s.arrived
	return answered
}

func get(t *testing.T, to string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := isolated.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func writeConfig(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gatewayConfig is a file for a service, with more settings and routes.
func gatewayConfig(t *testing.T, s *keyless, settings string) (file, text string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "once.yaml")
	text = fmt.Sprintf("gateway:\n  upstream: %s\n  store: sqlite:%s\n%s", s.URL, filepath.Join(dir, "gateway.db"), settings)
	writeConfig(t, file, text)
	return file, text
}

// TestGatewayDrains: at SIGTERM a gateway says that it is not ready before it refuses anything, answers and stores what is under way, and
// ends with 0. The next process replays it.
func TestGatewayDrains(t *testing.T) {
	t.Parallel()
	const wait = 3 * time.Second
	s := newKeyless(t)
	file, _ := gatewayConfig(t, s, "  anyone: true\n  drain_wait: "+wait.String()+"\n  routes:\n  - {match: POST /slow}\n  - {match: POST /pay}\n")
	g := startGateway(t, file)
	if code := get(t, g.admin+"/livez"); code != 200 {
		t.Errorf("/livez: %d", code)
	}
	if code := get(t, g.admin+"/readyz"); code != 200 {
		t.Errorf("/readyz: %d", code)
	}
	underWay := s.sendLater(t, g.public+"/slow", "k1")
	signalled := time.Now()
	may := func() bool { return time.Since(signalled) > wait } // the gateway may refuse requests: this test has paused
	g.signal(t, syscall.SIGTERM)
	for get(t, g.admin+"/readyz") == 200 {
		if a := sendKeyed(t, isolated, g.public+"/pay", "before"); a.err != nil && !may() {
			t.Fatalf("refused while /readyz said 200: %v", a.err)
		}
	}
	noticed := sendKeyed(t, isolated, g.public+"/pay", "k2")
	if noticed.status != http.StatusCreated && !may() {
		t.Errorf("before the load balancer has noticed: %v", noticed)
	}
	if code := get(t, g.admin+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", code)
	}
	close(s.release)
	first := <-underWay
	if first.status != http.StatusCreated || first.how != "stored" {
		t.Errorf("under way: %v", first)
	}
	for range g.log {
	}
	if err := g.cmd.Wait(); err != nil {
		t.Errorf("it has ended with %v", err)
	}
	g = startGateway(t, file)
	if a := sendKeyed(t, isolated, g.public+"/slow", "k1"); a.how != "replayed" || a.body != first.body {
		t.Errorf("the next process: %v, and it was %v", a, first)
	}
	db := "sqlite:" + filepath.Join(filepath.Dir(file), "gateway.db")
	if o := run(t, "keys", "list", "--db", db).want(t, 0); !strings.Contains(o.stdout, "k1") || noticed.err == nil && !strings.Contains(o.stdout, "k2") {
		t.Errorf("once keys list: %s %s", o.stdout, o.stderr)
	}
}

// TestGatewayReload: a file is taken over as a whole or not at all. A mistake is logged with its place and changes nothing, and what is
// under way ends as it has begun.
func TestGatewayReload(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	principal := func(network string) string {
		return "  principal: {header: X-Tenant, trusted_from: [" + network + "]}\n  routes:\n  - {match: POST /slow}\n  - {match: POST /pay}\n"
	}
	file, old := gatewayConfig(t, s, principal("127.0.0.0/8"))
	other := strings.Replace(old, "127.0.0.0/8", "10.0.0.0/8", 1)
	g := startGateway(t, file)
	underWay := s.sendLater(t, g.public+"/slow", "k1")
	for i, c := range []struct{ text, says string }{
		{other + "  - {match: POST /refunds, wiat: 5s}\n", "wiat"},
		{other + "  - {match: POST /pay}\n", "conflicts"},
		{strings.Replace(other, "gateway.db", "other.db", 1), "restart"},
	} {
		writeConfig(t, file, c.text)
		g.signal(t, syscall.SIGHUP)
		if log := g.logged(t, "Try: "); !strings.Contains(log, c.says) || !strings.Contains(log, "once.yaml:[") || !strings.Contains(log, "^") || !strings.Contains(log, "keeps the old configuration") {
			t.Errorf("%q: %s", c.says, log)
		}
		if a := sendKeyed(t, isolated, g.public+"/pay", fmt.Sprint("kept-", i)); a.status != http.StatusCreated {
			t.Errorf("%q, and the configuration before it: %v", c.says, a)
		}
	}
	writeConfig(t, file, other)
	g.signal(t, syscall.SIGHUP)
	g.logged(t, "the gateway uses the new configuration")
	effects := s.effects.Load()
	if a := sendKeyed(t, isolated, g.public+"/pay", "new"); a.status != http.StatusUnauthorized || s.effects.Load() != effects {
		t.Errorf("a header from an address that is not trusted any more: %v", a)
	}
	g.logged(t, "X-Tenant came from 127.0.0.1, and trusted_from does not list this address")
	close(s.release)
	if a := <-underWay; a.status != http.StatusCreated || a.how != "stored" {
		t.Errorf("what was under way: %v", a)
	}
}

// TestGatewayKilled: after a kill a stored answer is replayed from SQLite, and what was under way is unknown: it is not forwarded again.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	file, _ := gatewayConfig(t, s, "  anyone: true\n  lease: 1h\n  routes:\n  - {match: POST /slow}\n  - {match: POST /pay}\n")
	g := startGateway(t, file)
	first := sendKeyed(t, isolated, g.public+"/pay", "k1")
	underWay := s.sendLater(t, g.public+"/slow", "k2")
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if a := <-underWay; a.err == nil {
		t.Errorf("answered by a process that was killed: %v", a)
	}
	endLease(t, file)
	g = startGateway(t, file)
	if a := sendKeyed(t, isolated, g.public+"/pay", "k1"); first.status != http.StatusCreated || a.how != "replayed" || a.body != first.body {
		t.Errorf("a stored answer: %v, then %v", first, a)
	}
	a := sendKeyed(t, isolated, g.public+"/slow", "k2")
	if a.status != http.StatusConflict || !strings.Contains(a.body, "status_url") || s.effects.Load() != 2 {
		t.Errorf("what was under way: %v after %d effects", a, s.effects.Load())
	}
	resolvesForward(t, "sqlite:"+filepath.Join(filepath.Dir(file), "gateway.db"), "k2")
	if a := sendKeyed(t, isolated, g.public+"/slow", "k2"); a.status != http.StatusCreated || a.body != `{"id":1}` || a.how != "replayed" || s.effects.Load() != 2 {
		t.Errorf("after the decision: %v after %d effects", a, s.effects.Load())
	}
}

// endLease ends the lease of the request that was under way when a gateway was killed. The lease is an hour long, so it does not end before, however long a
// process pauses.
func endLease(t *testing.T, file string) {
	t.Helper()
	db, err := cli.OpenDatabase(t.Context(), "sqlite:"+filepath.Join(filepath.Dir(file), "gateway.db"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := db.ExecContext(t.Context(), "update once_operation set lease_until = 0 where lease_until > 1000 * (unixepoch() + 1800)")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d leases of an hour, %v", n, err)
	}
}

// resolvesForward decides the unknown forward of a gateway: with the answer for its caller. A value of the call, which no caller could get, is refused.
func resolvesForward(t *testing.T, db, key string) {
	t.Helper()
	result := filepath.Join(t.TempDir(), "result.json")
	writeConfig(t, result, `{"id":1}`)
	o := run(t, "keys", "show", key, "--db", db).want(t, 0)
	if strings.Contains(o.stdout, "--call-result") || !strings.Contains(o.stdout, "  --result FILE --status 201 ") || !strings.Contains(o.stdout, "  --failed REASON --status 422 ") {
		t.Errorf("%s", o.stdout)
	}
	resolve := []string{"keys", "resolve", key, "--scope", "global service POST /slow", "--call", calling(t, db, key), "--reason", "found", "--db", db}
	for _, yes := range []string{"--yes=false", "--yes"} {
		o := run(t, append(resolve, "--call-result", result, yes)...).want(t, 1)
		if o.stdout != "" || !strings.Contains(o.stderr, "a request that a gateway has forwarded") || !strings.HasSuffix(o.stderr, "\nTry: --result FILE --status 201\n") {
			t.Errorf("%s: %s%s", yes, o.stdout, o.stderr)
		}
	}
	run(t, append(resolve, "--result", result, "--status", "201", "--yes")...).want(t, 0)
}

// TestGatewayAsksByItself: after a kill the receipt of what was under way is asked for, also if no client comes.
func TestGatewayAsksByItself(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	file, _ := gatewayConfig(t, s, "  anyone: true\n  lease: 1h\n  receipt: "+s.URL+"/once-receipt\n  routes:\n  - {match: POST /slow, on_unknown: check}\n")
	g := startGateway(t, file)
	witnessed := s.sendLater(t, g.public+"/slow", "k0") // the service writes receipts: from then on a missing one would prove something
	s.release <- struct{}{}
	if a := <-witnessed; a.status != http.StatusCreated || <-s.settled != http.MethodGet {
		t.Errorf("the first request: %v", a)
	}
	underWay := s.sendLater(t, g.public+"/slow", "k1")
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-underWay
	endLease(t, file)
	g = startGateway(t, file)
	if method := <-s.settled; method != http.MethodPost {
		t.Errorf("asked by %s", method)
	}
	a := answer{status: http.StatusConflict}
	for a.status == http.StatusConflict { // what it was told is on its way to the store
		a = sendKeyed(t, isolated, g.public+"/slow", "k1")
	}
	if a.status != http.StatusCreated || a.body != "receipt" || s.effects.Load() != 2 {
		t.Errorf("%v after %d effects", a, s.effects.Load())
	}
}

// TestGatewayReceipts: the database of the service, in which once has the receipts alone, answers for a service that answers nothing.
func TestGatewayReceipts(t *testing.T) {
	t.Parallel()
	for driver, db := range map[string]string{"sqlite": sqliteURL(t), "pgx": testenv.NewDatabase(t)} {
		run(t, "migrate", "up", "--only", "receipt", "--db", db).want(t, 0)
		s := newKeyless(t)
		src, err := cli.ParseSource(db)
		if err != nil {
			t.Fatal(err)
		}
		if s.book, err = sql.Open(src.Driver, src.DSN); err != nil { // on SQLite it waits while the gateway writes
			t.Fatal(err)
		}
		defer s.book.Close()
		for _, name := range []string{"receipt", "sqlite"} {
			file := filepath.Join(t.TempDir(), "once.yaml")
			settings := "  store: receipt\n"
			if name == "sqlite" {
				settings = "  store: sqlite:" + filepath.Join(filepath.Dir(file), "gateway.db") + "\n"
			}
			writeConfig(t, file, "gateway:\n  upstream: "+s.URL+"\n  anyone: true\n  receipt: "+db+"\n"+settings+"  routes:\n  - {match: POST /book, on_unknown: check}\n")
			g := startGateway(t, file)
			before := s.effects.Load()
			for range 3 {
				if a := sendKeyed(t, isolated, g.public+"/book", name); a.status != http.StatusCreated || a.body != "booked" {
					t.Errorf("%s, %s: %v", driver, name, a)
				}
			}
			if n := s.effects.Load() - before; n != 1 {
				t.Errorf("%s, %s: %d effects", driver, name, n)
			}
			if code := get(t, g.admin+"/readyz"); code != 200 {
				t.Errorf("/readyz: %d", code)
			}
		}
	}
	unready := testenv.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "once.yaml")
	for setting, try := range map[string]string{"store: " + unready: "once migrate up", "receipt: " + unready + "\n  store: receipt": "--only receipt"} {
		writeConfig(t, file, "gateway:\n  upstream: http://127.0.0.1:1\n  anyone: true\n  name: service\n  "+setting+"\n")
		if o := run(t, "gateway", "-c", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0").want(t, 1); !strings.Contains(o.stderr, try) {
			t.Errorf("%s", o.stderr)
		}
	}
}

// TestGatewayFailsClosed: without its store a gateway forwards nothing that has a key, and is not ready.
func TestGatewayFailsClosed(t *testing.T) {
	t.Parallel()
	db, err := url.Parse(testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	run(t, "migrate", "up", "--db", db.String()).want(t, 0)
	server := db.Host
	net, err := faultnet.Listen(server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = net.Close() }()
	s := newKeyless(t)
	db.Host = net.Addr()
	file := filepath.Join(t.TempDir(), "once.yaml")
	writeConfig(t, file, fmt.Sprintf("gateway:\n  upstream: %s\n  anyone: true\n  name: service\n  store: %s\n  routes:\n  - {match: POST /pay}\n", s.URL, db))
	g := startGateway(t, file)
	first := sendKeyed(t, isolated, g.public+"/pay", "k1")
	if first.status != http.StatusCreated {
		t.Fatal(first)
	}
	net.SetUpstream("127.0.0.1:1")
	net.CutAll()
	for i := range 3 {
		if a := sendKeyed(t, isolated, g.public+"/pay", fmt.Sprint("gone-", i)); a.status != http.StatusServiceUnavailable || s.effects.Load() != 1 {
			t.Errorf("without the store: %v after %d effects", a, s.effects.Load())
		}
	}
	if code := get(t, g.admin+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz without the store: %d", code)
	}
	if code := get(t, g.admin+"/livez"); code != 200 {
		t.Errorf("/livez without the store: %d", code)
	}
	net.SetUpstream(server)
	for get(t, g.admin+"/readyz") != 200 { // until it is back
	}
	if a := sendKeyed(t, isolated, g.public+"/pay", "k1"); a.how != "replayed" || a.body != first.body {
		t.Errorf("with the store again: %v", a)
	}
}

// TestReadyzOfAReadOnlyStore: a gateway whose store can be read, but not written, is not ready, and says so. It is ready again when the store is.
func TestReadyzOfAReadOnlyStore(t *testing.T) {
	t.Parallel()
	url := testenv.NewDatabase(t)
	run(t, "migrate", "up", "--db", url).want(t, 0)
	s := newKeyless(t)
	file := filepath.Join(t.TempDir(), "once.yaml")
	writeConfig(t, file, fmt.Sprintf("gateway:\n  upstream: %s\n  anyone: true\n  name: service\n  store: %s\n  routes:\n  - {match: POST /pay}\n", s.URL, url))
	g := startGateway(t, file)
	if code := get(t, g.admin+"/readyz"); code != 200 {
		t.Fatalf("/readyz: %d", code)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	become := func(readOnly string) {
		t.Helper()
		for _, statement := range []string{
			"set default_transaction_read_only = off",
			"do $$ begin execute format('alter database %I set default_transaction_read_only = " + readOnly + "', current_database()); end $$",
			"select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
		} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	become("on")
	for readyz := ""; !strings.Contains(readyz, "can read its database, but cannot write"); { // until it has connected again
		resp, err := isolated.Get(g.admin + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		readyz = string(body)
	}
	if a := sendKeyed(t, isolated, g.public+"/pay", "k"); a.status != http.StatusServiceUnavailable || s.effects.Load() != 0 {
		t.Errorf("with a store that is read-only: %v after %d effects", a, s.effects.Load())
	}
	become("off")
	for get(t, g.admin+"/readyz") != 200 {
	}
	if a := sendKeyed(t, isolated, g.public+"/pay", "k"); a.status != http.StatusCreated {
		t.Errorf("with the store again: %v", a)
	}
	if o := run(t, "keys", "list", "--db", url).want(t, 0); strings.Count(o.stdout, "\nonce-check ") > 1 {
		t.Errorf("each probe leaves a record:\n%s", o.stdout)
	}
}
