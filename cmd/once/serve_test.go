package main

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestServe: it says where it is, answers, and stops when it is told to.
func TestServe(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--unsafe"}, {"--dialect", "stripe-v1"}} {
		cmd := program(t, append([]string{"demo", "serve", "--listen", "127.0.0.1:0"}, args...)...)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		lines := bufio.NewScanner(stdout)
		for said["serving"] == "" && lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), " ")
			said[name] = strings.TrimSpace(value)
		}
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
