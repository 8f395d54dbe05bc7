package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// TestRelayWaitsForItsDatabase: a relay that is started before its database says so, waits, and then delivers.
func TestRelayWaitsForItsDatabase(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onEach(t, func(t *testing.T, dsn string) {
		if strings.HasPrefix(dsn, "sqlite:") {
			t.Skip("SQLite has no server that could be down, so the case cannot exist")
		}
		open(t, dsn).add(t, outbox.Config{}, message.Message{Topic: "refunds", Type: "n"})
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := faultnet.Listen(closedPort)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		server := u.Host
		u.Host = proxy.Addr()
		got := make(chan string, 1)
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
		defer receiver.Close()
		args := []string{"relay", "--db", u.String(), "--to", receiver.URL + "/{topic}"}
		for _, comes := range []bool{false, true} {
			relay := program(t, args...)
			stderr, err := relay.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := relay.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stderr)
			for n := 0; n < 2; {
				if !lines.Scan() {
					t.Fatalf("it has ended: %v", relay.Wait())
				}
				if strings.Contains(lines.Text(), "the relay waits and tries again") && strings.Contains(lines.Text(), "Try: ") {
					n++
				}
			}
			if comes {
				proxy.SetUpstream(server)
				if path := <-got; path != "/refunds" {
					t.Errorf("delivered to %s", path)
				}
			}
			if err := relay.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() { // to its end
			}
			if err := relay.Wait(); err != nil {
				t.Errorf("interrupted, database there %v: %v", comes, err)
			}
		}
	})
}

// closedPort is an address at which no process listens: the system gives no process such a port that does not ask for it.
const closedPort = "127.0.0.1:1"

// TestWhatARelayWaitsFor: a server that is not there is waited for; one that has answered, and refuses, is not.
func TestWhatARelayWaitsFor(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	for _, dsn := range []string{"postgres://u@" + closedPort + "/x", "mysql://u@" + closedPort + "/x", "postgres://u@no-such-host.invalid/x"} {
		relay := program(t, "relay", "--db", dsn, "--to", "http://127.0.0.1:1/{topic}")
		stderr, err := relay.StderrPipe()
		if err == nil {
			err = relay.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if lines := bufio.NewScanner(stderr); !lines.Scan() || !strings.Contains(lines.Text(), "the relay waits and tries again") {
			t.Errorf("%s is not waited for: %s", dsn, lines.Text())
		}
		_ = relay.Process.Kill()
		_ = relay.Wait() // killed
	}
	onEach(t, func(t *testing.T, dsn string) {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		refused := []string{dsn} // it has no tables
		if u.Scheme != "sqlite" {
			u.Path = "/no_such_database"
			refused = append(refused, u.String())
		}
		for _, dsn := range refused {
			out := run(t, "relay", "--db", dsn, "--to", "http://127.0.0.1:1/{topic}")
			if out.code == 0 || !strings.Contains(out.stderr, "Try: ") || strings.Contains(out.stderr, "the relay waits and tries again") {
				t.Errorf("%s: %+v", dsn, out)
			}
		}
	})
}
