package stripetest_test

import (
	"bufio"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestDemoServe: the storm against the program itself.
func TestDemoServe(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	program := filepath.Join(t.TempDir(), "once")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		onBothOf(t, func(g *service, dsn string) string { return g.run(program, "--db", dsn) }, func(g *service) {
			g.storm()
			g.once()
		})
	})
	t.Run("unsafe", func(t *testing.T) { // the storm is one there, too
		t.Parallel()
		onBothOf(t, func(g *service, dsn string) string { return g.run(program, "--db", dsn, "--unsafe") }, func(g *service) {
			g.refundsTwice()
		})
	})
}

// run runs "once demo serve --dialect stripe-v1" behind a counter, until the test ends.
func (g *service) run(program string, args ...string) string {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), program, append([]string{"demo", "serve", "--dialect", "stripe-v1", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stdout, err := cmd.StdoutPipe()
	must(g.T, err)
	must(g.T, cmd.Start())
	at := ""
	for lines := bufio.NewScanner(stdout); at == "" && lines.Scan(); {
		if where, is := strings.CutPrefix(lines.Text(), "serving"); is {
			at = strings.TrimSpace(where)
		}
	}
	upstream, err := url.Parse(at)
	if err != nil || upstream.Host == "" {
		g.Fatalf("it serves at %q: %v, %v", at, err, cmd.Wait())
	}
	server := httptest.NewServer(g.counting(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}))
	g.Cleanup(func() {
		server.Close()
		_ = cmd.Wait() // after the end of the context there is always an error
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			g.Errorf("it has ended with %d", code)
		}
	})
	return strings.TrimPrefix(server.URL, "http://")
}
