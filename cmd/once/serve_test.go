package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/cmd/once/internal/payments"
	"github.com/oncelib/once/internal/testenv"
)

// serving starts the service, and returns what it says of itself.
func serving(t *testing.T, args ...string) (cmd *exec.Cmd, said map[string]string) {
	t.Helper()
	return servingTo(t, nil, args...)
}

// servingTo has it log to a file.
func servingTo(t *testing.T, log *os.File, args ...string) (cmd *exec.Cmd, said map[string]string) {
	t.Helper()
	cmd = program(t, append([]string{"demo", "serve", "--listen", "127.0.0.1:0"}, args...)...)
	if log != nil {
		cmd.Stderr = log
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, linesUntil(t, stdout, "serving")
}

// linesUntil are the lines that a program prints when it starts, by their first words, up to that with last.
func linesUntil(t *testing.T, out io.Reader, last string) (said map[string]string) {
	t.Helper()
	said = map[string]string{}
	lines := bufio.NewScanner(out)
	for said[last] == "" && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		said[name] = strings.TrimSpace(value)
	}
	return said
}

// TestServeRemovesWhatKilledOnesLeave: the files of the warehouse are removed at the end. Those of a process that was killed are removed by the next one, and those of
// a process that runs are not.
func TestServeRemovesWhatKilledOnesLeave(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	start := func() *exec.Cmd {
		t.Helper()
		cmd := program(t, "demo", "serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		linesUntil(t, stdout, "serving")
		return cmd
	}
	want := func(n int) {
		t.Helper()
		if now := foldersOf(t, temp, "once-demo-warehouse-*"); len(now) != n {
			t.Errorf("%q, want %d", now, n)
		}
	}
	killed := start()
	want(1)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	want(1)
	for n := range 2 {
		cmd := start()
		want(n + 1)
		defer func() {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			want(n)
		}()
	}
}

// TestServeAnswersUntilStopped: it says where it is, answers, and stops when it is told to.
func TestServeAnswersUntilStopped(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--unsafe"}, {"--dialect", "stripe-v1"}} {
		cmd, said := serving(t, args...)
		if !strings.HasPrefix(said["database"], "sqlite:/") {
			t.Errorf("it does not say where the database is: %v", said)
		}
		ask(t, http.MethodGet, said["serving"]+"/healthz", "", 200)
		if len(args) < 2 {
			ask(t, http.MethodPost, said["serving"]+"/charges", `{"amount":5000,"currency":"EUR","customer":"ada"}`, 201)
		} else {
			ask(t, http.MethodPost, said["serving"]+"/v1/charges", `amount=5000&currency=eur`, 200)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	o := run(t, "demo", "serve", "--listen", "256.0.0.1:1").want(t, 1)
	if !strings.Contains(o.stderr, "\nTry: --listen") {
		t.Errorf("%s", o.stderr)
	}
	o = run(t, "demo", "serve", "--dialect", "nobody's").want(t, 2)
	if !strings.Contains(o.stderr, "\nTry: --dialect stripe-v1") {
		t.Errorf("%s", o.stderr)
	}
}

// TestServePublishes: the rules of its keys can be read without authentication, in each dialect;
// without keys there are none.
func TestServePublishes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, paths []string }{
		{nil, []string{"/charges", "/refunds", "/refunds/{id}/void"}},
		{[]string{"--dialect", "stripe-v1"}, []string{"/v1/charges", "/v1/refunds"}},
		{[]string{"--unsafe"}, nil},
	} {
		cmd, said := serving(t, c.args...)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, said["serving"]+"/openapi.json", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Paths map[string]map[string]any }
		err = json.NewDecoder(resp.Body).Decode(&doc)
		_ = resp.Body.Close()
		got := slices.Sorted(maps.Keys(doc.Paths))
		if published := resp.StatusCode == http.StatusOK && err == nil; published != (c.paths != nil) || !slices.Equal(got, c.paths) {
			t.Errorf("%v: %d, %v, %q", c.args, resp.StatusCode, err, got)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestServeKeepsNoSecretKey: what a Stripe client authenticates with is neither in the database nor
// in the log, whatever happens to its requests; and each secret key is another account.
func TestServeKeepsNoSecretKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd, said := servingTo(t, log, "--dialect", "stripe-v1", "--db", "sqlite:"+filepath.Join(dir, "payments.db"))
	const secret = "sk_live_7gq0secret"
	send := func(user, body string, bearer bool, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, said["serving"]+"/v1/charges", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(user, "")
		if bearer {
			req.Header.Set("Authorization", "Bearer "+user)
		}
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s, %s: %d, want %d", user, body, resp.StatusCode, want)
		}
	}
	send(secret, "amount=5000&currency=eur", false, 200)
	send(secret, "currency=eur&amount=5000", true, 200) // the same account
	send(secret, "amount=5001&currency=eur", true, 400)
	send(secret+"2", "amount=5001&currency=eur", false, 200) // another one
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	var kept strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("the secret key is in %s", filepath.Base(name))
		}
		kept.Write(text)
	}
	if strings.Count(kept.String(), "acct_") < 4 || !strings.Contains(kept.String(), "mismatch") {
		t.Errorf("the account, or what became of its requests, is in none of %v", files)
	}
}

// TestServeWait: how long a duplicate waits is what the help says, and can be switched off.
func TestServeWait(t *testing.T) {
	t.Parallel()
	help := run(t, "demo", "serve", "--help").want(t, 0).stdout
	if !strings.Contains(help, "such as 2s (default: 0s, or 5s with --dialect stripe-v1)\n") {
		t.Errorf("%s", help)
	}
	for _, c := range []struct {
		args        []string
		least, most time.Duration
	}{
		{nil, 0, payments.StripeWait},
		{[]string{"--wait", "1s"}, time.Second, payments.StripeWait},
		{[]string{"--dialect", "stripe-v1"}, payments.StripeWait, time.Minute},
		{[]string{"--dialect", "stripe-v1", "--wait", "0s"}, 0, payments.StripeWait},
		{[]string{"--dialect", "stripe-v1", "--wait", "1s"}, time.Second, payments.StripeWait},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			dsn := testenv.NewDatabase(t)
			cmd, said := serving(t, append(c.args, "--db", dsn)...)
			ctx := t.Context()
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(ctx, "lock table charge"); err != nil {
				t.Fatal(err)
			}
			target, body := said["serving"]+"/refunds", `{"charge_id":"ch_1","amount":1}`
			if slices.Contains(c.args, "--dialect") {
				target, body = said["serving"]+"/v1/refunds", "charge=ch_1"
			}
			first := make(chan struct{})
			go func() {
				defer close(first)
				ask(t, http.MethodPost, target, body, http.StatusNotFound)
			}()
			deadline := time.Now().Add(time.Minute)
			for n := 0; n == 0; { // until the first one waits for the table
				if err := db.QueryRowContext(ctx, "select count(*) from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())").Scan(&n); err != nil || time.Now().After(deadline) {
					t.Fatalf("no session waits for the table: %v", err)
				}
			}
			for n := 1; ; n++ { // a busy machine may answer late, but not each time
				began := time.Now()
				ask(t, http.MethodPost, target, body, http.StatusConflict)
				took := time.Since(began)
				if took >= c.least && took <= c.most {
					break
				}
				if took < c.least || n == 5 {
					t.Errorf("a duplicate was told after %v, want %v to %v", took, c.least, c.most)
					break
				}
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
			<-first
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func ask(t *testing.T, method, url, body string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer acme")
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded") // the other dialect does not look at it
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s %s: %d, want %d", method, url, resp.StatusCode, want)
	}
}
