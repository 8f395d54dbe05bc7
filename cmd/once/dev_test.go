package main

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// developing starts once dev in a folder for its files, and returns what it says of itself.
func developing(t *testing.T, temp string, stderr io.Writer) (cmd *exec.Cmd, said map[string]string) {
	t.Helper()
	cmd = program(t, "dev", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0")
	cmd.Env, cmd.Stderr = append(cmd.Env, "TMPDIR="+temp), stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, linesUntil(t, stdout, "console")
}

// folders are those that once dev has left or has now.
func folders(t *testing.T, temp string) []string {
	t.Helper()
	return foldersOf(t, temp, "once-dev-*")
}

func foldersOf(t *testing.T, temp, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(temp, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDevServesUntilOneSignal: once dev serves a service and a console whose pages fill by themselves: operations, events that an inbox has applied, dead letters, and keys that
// wait behind them. One signal ends all of it and removes its files; what a process leaves that was killed, the next one removes.
func TestDevServesUntilOneSignal(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	killed, said := developing(t, temp, io.Discard)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	if left := folders(t, temp); len(left) != 1 || said["console"] == "" {
		t.Fatalf("a process that was killed leaves %q: %q", left, said)
	}
	var stderr strings.Builder
	cmd, said := developing(t, temp, &stderr)
	other, _ := developing(t, temp, io.Discard)
	if now := folders(t, temp); len(now) != 2 {
		t.Errorf("two processes have %q", now)
	}
	ask(t, http.MethodGet, said["service"]+"/healthz", "", 200)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(said["console"], "?")
	read := func(address string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return html.UnescapeString(string(body))
	}
	if page := read(base + "operations"); !strings.Contains(page, "no access") {
		t.Errorf("without the token: %s", page)
	}
	if page := read(said["console"]); !strings.Contains(page, ", operator") {
		t.Errorf("with the token: %s", page)
	}
	for path, text := range map[string]string{
		"operations": "acme POST /refunds", "attempts?outcome=replayed": "replayed", "attempts?outcome=conflict": "mismatch", "messages?state=delivered": "charge.succeeded",
		"deadletters": "cannot book", "inboxes": "bookings", "inbox?consumer=bookings": "a dead letter",
	} {
		eventually(t, func() bool { return strings.Contains(read(base+path), text) })
	}
	place := regexp.MustCompile(`place\?id=[^"]*`).FindString(read(base + "inbox?consumer=bookings"))
	if page := read(base + place); !strings.Contains(page, "Skip message") || !strings.Contains(page, "refund.voided") {
		t.Errorf("a key that waits: %s", page)
	}
	for _, running := range []*exec.Cmd{cmd, other} {
		if err := running.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	}
	if left := folders(t, temp); len(left) > 0 || stderr.String() != "" {
		t.Errorf("it leaves %q, and says %q", left, stderr.String())
	}
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--console", "0.0.0.0:0"}, {"--listen", "localhost:1"}} {
		if o := run(t, append([]string{"dev"}, args...)...).want(t, 2); !strings.Contains(o.stderr, "Try: ") {
			t.Error(o.stderr)
		}
	}
	if _, err := os.Stat(temp); err != nil {
		t.Error(err)
	}
}
