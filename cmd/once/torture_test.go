package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
	"github.com/oncelib/once/cmd/once/internal/torture/crash"
	"github.com/oncelib/once/internal/testenv"
)

// lifetime is a pipe that all processes inherit which cmd starts, and theirs. It has ended when none of them is left.
func lifetime(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// free waits until no process holds the other end.
func free(t *testing.T, left *os.File) {
	t.Helper()
	if err := left.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, left); err != nil {
		t.Errorf("a process is left: %v", err)
	}
}

// tortured runs the program to its end, with charge.http as the request, and demands that nothing is left running.
func tortured(t *testing.T, args ...string) (output, crash.Report) {
	t.Helper()
	cmd := program(t, append([]string{"torture", "-o", "json", "--request", requestFile(t)}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	left := lifetime(t, cmd)
	_ = cmd.Wait() // the exit code tells
	free(t, left)
	o := output{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	var r crash.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil && o.code < 2 {
		t.Fatalf("%v: %+v", err, o)
	}
	return o, r
}

const chargeFile = "POST http://127.0.0.1/charges\nAuthorization: Bearer acme\nContent-Type: application/json\n\n{\"amount\":5000,\"currency\":\"EUR\",\"customer\":\"ada\"}\n"

// requestFile is a file with the request that the services take.
func requestFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "charge.http")
	if err := os.WriteFile(file, []byte(chargeFile), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// addresses counts the addresses that tests have asked for.
var addresses atomic.Int64

// freeAddress is an address for a proxy or a service. Its port is below those that connections and the servers of other tests get, so that none takes it before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := 6_000 + (os.Getpid()+int(addresses.Add(1)))%4_000
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func causesOf(r crash.Report) (causes []string) {
	for _, f := range r.Findings {
		causes = append(causes, f.Cause)
	}
	return causes
}

// TestTortureAtEachPacket: a service with several commits breaks at the packets between them, in the way in which it must; one with one commit does not.
func TestTortureAtEachPacket(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for commits, want := range map[string]string{"one": "", "three": "stuck", "again": "double", "first": "lost", "apart": "different"} {
		t.Run(commits, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, "postgresql")
			database, proxy := testenv.NewDatabase(t), freeAddress(t)
			through, err := url.Parse(database)
			if err != nil {
				t.Fatal(err)
			}
			server := through.Host
			through.Host = proxy
			o, r := tortured(t, "--stuck-after", patience(want), "--proxy", proxy+"="+server, "--effects", "http://127.0.0.1:{port}/count", "--", self, asService, commits, through.String(), "{port}")
			judge(t, o, r, want)
			first := slices.IndexFunc(r.Kills, func(k crash.Kill) bool { return k.Outcome != "ok" })
			if !r.Complete || r.Hits < 4 || first >= 12 {
				t.Errorf("complete, %v, in %d kills, %d hits; found by kill %d", r.Complete, len(r.Kills), r.Hits, first+1)
			}
		})
	}
}

// patience is short only where a key is stuck for ever, so that no machine is too slow for the others.
func patience(want string) string {
	if want == "stuck" {
		return "1ms"
	}
	return "1m"
}

// judge demands one finding, or none if want is empty.
func judge(t *testing.T, o output, r crash.Report, want string) {
	t.Helper()
	code := 0
	var wants []string
	if want != "" {
		code, wants = 1, []string{want}
	}
	if got := causesOf(r); !slices.Equal(got, wants) || o.code != code {
		t.Errorf("found %q, exit code %d, want %q\n%s%s", got, o.code, want, o.stdout, o.stderr)
	}
	t.Logf("%d kills, %d hits", len(r.Kills), r.Hits)
}

// TestTortureOfRedis: a key that is taken with SETNX is stuck until the lock ends, and then executed again.
func TestTortureOfRedis(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "node")
	for lock, c := range map[string]struct {
		want   string
		points []string
	}{
		"60000": {"stuck", []string{"after the answer to packet 1", "before packet 2", "after the answer to packet 2", "before packet 3"}},
		"50":    {"double", []string{"after the answer to packet 2", "before packet 3"}},
	} {
		want := c.want
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			redis, port := startRedis(t)
			_, proxy, _ := net.SplitHostPort(freeAddress(t))
			o, r := tortured(t, "--stuck-after", patience(want), "--proxy", proxy+"="+port, "--effects", redis.effects(t), "--", "node", "testdata/services/setnx.js", "{port}", proxy, lock)
			judge(t, o, r, want)
			if !r.Complete || len(r.Kills) != 6 || len(r.Findings) != 1 || !slices.Equal(r.Findings[0].Points, c.points) {
				t.Errorf("%s", o.stdout)
			}
		})
	}
}

// TestTortureByTheClock: without a proxy, the clock finds what a kill breaks.
func TestTortureByTheClock(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stripe := filepath.Join(t.TempDir(), "charge.txt")
	if err := os.WriteFile(stripe, []byte("curl http://127.0.0.1/v1/charges \\\n  -u sk_test_acme: -d amount=5000 -d currency='eur'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const count, ask, dsn = `!sqlite3 -cmd '.timeout 10000' FILE "select count(*) from charge"`, "http://127.0.0.1:{port}/count", "file:FILE?_pragma=busy_timeout(10000)&_txlock=immediate"
	for name, c := range map[string]struct {
		tier          testenv.Tier
		want, effects string
		command       []string
	}{
		"map in Python":           {testenv.InTest, "double", "!cat FILE | wc -l", []string{"python3", "testdata/services/map.py", "{port}", "FILE", "0.05"}},
		"one commit on SQLite":    {testenv.InTest, "", ask, []string{self, asService, "one", dsn, "{port}"}},
		"three commits on SQLite": {testenv.InProve, "stuck", ask, []string{self, asService, "three", dsn, "{port}"}},
		"executed again":          {testenv.InProve, "double", ask, []string{self, asService, "again", dsn, "{port}"}},
		"answered first":          {testenv.InProve, "lost", ask, []string{self, asService, "first", dsn, "{port}"}},
		"the demo":                {testenv.InTest, "", count, []string{self, "demo", "serve", "--listen", "127.0.0.1:{port}", "--db", "sqlite:FILE"}},
		"the demo as Stripe":      {testenv.InProve, "", count, []string{self, "demo", "serve", "--dialect", "stripe-v1", "--listen", "127.0.0.1:{port}", "--db", "sqlite:FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Cell(t, c.tier)
			t.Parallel()
			testenv.Need(t, "python3", "sqlite3")
			file := filepath.Join(t.TempDir(), "charges.db")
			isDemo, kills := strings.HasPrefix(name, "the demo"), "6"
			if isDemo { // which answers within milliseconds
				kills = "12"
			}
			args := []string{"--stuck-after", patience(c.want), "--kills", kills, "--effects", c.effects}
			if name == "the demo as Stripe" {
				args = append(args, "--preset", "stripe", "--request", stripe)
			}
			args = append(append(args, "--"), c.command...)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "FILE", file)
			}
			o, r := tortured(t, args...)
			if isDemo && o.code == 2 && r.Hits == 0 && len(r.Kills) == 12 && len(r.Findings) == 0 {
				t.Log("the machine is so loaded that each kill came after the answer")
				return
			}
			judge(t, o, r, c.want)
			if r.Hits == 0 {
				t.Error("no hit")
			}
		})
	}
}

// TestTortureEnds: whether it is interrupted or killed, no process stays behind: not those that the command has started, not those that have
// left its group, and not the command of --effects.
func TestTortureEnds(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const hang = "(echo ready >&3; sleep 120)"
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 130, syscall.SIGKILL: -1} {
		for name, c := range map[string]struct{ effects, before string }{
			"command": {"!echo 0", hang + " & setsid sh -c '" + hang + "' & setsid sh -c 'setsid sh -c \"sleep 120 & sleep 120\" &' & trap '' TERM INT; " + hang + ";"},
			"effects": {"!" + hang, "sleep 120 & "},
		} {
			t.Run(signal.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				cmd := program(t, "torture", "--request", requestFile(t), "--effects", c.effects, "--", "sh", "-c", c.before+" exec "+self+" "+asService+" one file:"+filepath.Join(t.TempDir(), "x.db")+" {port}")
				left := lifetime(t, cmd)
				if _, err := io.ReadFull(left, make([]byte, len("ready\n"))); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != code {
					t.Errorf("exit code %d, want %d", got, code)
				}
				free(t, left)
			})
		}
	}
}

// TestTortureTellsNothing: where no kill strikes, or nothing can be learned, it is no pass.
func TestTortureTellsNothing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	busy := httptest.NewServer(http.NotFoundHandler())
	defer busy.Close()
	taken := filepath.Join(t.TempDir(), "taken.http")
	if err := os.WriteFile(taken, []byte("POST "+busy.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "charges.db")
	count := `!sqlite3 -cmd '.timeout 10000' ` + file + ` "select count(*) from charge"`
	service := []string{self, asService, "one", "file:" + file, "{port}"}
	for says, args := range map[string][]string{
		"no kill happened during a request: the test has no result.\nTry: 127": append([]string{"--effects", count, "--proxy", freeAddress(t) + "=1", "--"}, service...),
		"did not increase.\nTry: ":                                    append([]string{"--effects", "!echo 7", "--"}, service...),
		"command of --effects has failed":                             append([]string{"--effects", "!exit 1", "--"}, service...),
		"ended by itself: oh dear.\nTry: run the same":                {"--effects", "!echo 0", "--", "sh", "-c", "echo oh dear; : {port}"},
		"by itself: fork/exec":                                        {"--effects", "!echo 0", "--", "/no/such/command", "{port}"},
		"the proxy cannot listen: ":                                   append([]string{"--effects", "!echo 0", "--proxy", busy.Listener.Addr().String() + "=1", "--"}, service...),
		"another process listens at " + busy.Listener.Addr().String(): {"--effects", "!echo 0", "--request", taken, "--", self, asService},
		"the command that serves":                                     {"--effects", "!echo 0"},
		"--effects is missing":                                        {"--", "true"},
		"--kills 0":                                                   {"--effects", "!echo 0", "--kills", "0", "--", "true"},
		"is not LISTEN=DATABASE":                                      {"--effects", "!echo 0", "--proxy", "5433", "--", "true"},
		"db.example.com is another machine":                           {"--effects", "!echo 0", "--proxy", "5433=db.example.com:5432", "--", "true"},
		"count.example.com is another machine":                        {"--effects", "http://count.example.com/", "--", "true"},
	} {
		t.Run(says, func(t *testing.T) {
			o, _ := tortured(t, append([]string{"-o", "table"}, args...)...)
			if o.code != 2 || !strings.Contains(o.stderr, says) || !strings.Contains(o.stderr, "\nTry: ") {
				t.Errorf("%d\n%s%s", o.code, o.stdout, o.stderr)
			}
		})
	}
}

// TestCheckOfServices: once check finds in the same services what can be seen without a kill, and nothing else.
func TestCheckOfServices(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	check := func(t *testing.T, address, effects string) (found []string) {
		t.Helper()
		o := run(t, "check", "-o", "json", "--as", "Authorization: Bearer zoe", "--effects", effects, "--", "curl", address+"/charges", "-H", "Authorization: Bearer acme", "--json", `{"amount":5000}`)
		var r probe.Report
		if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
			t.Fatalf("%v: %+v", err, o)
		}
		for _, f := range r.Findings {
			found = append(found, f.Cause)
		}
		slices.Sort(found)
		return found
	}
	for commits, isKept := range map[string]bool{"one": true, "three": true, "again": false} {
		t.Run(commits, func(t *testing.T) {
			testenv.Cell(t, testenv.InTest)
			t.Parallel()
			service, err := newCharges(commits, "file:"+filepath.Join(t.TempDir(), "charges.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
			if err != nil {
				t.Fatal(err)
			}
			defer service.db.Close()
			if !isKept {
				service.work = 300 * time.Millisecond // in which requests that are sent at the same time meet, also on a busy machine
			}
			server := httptest.NewServer(service)
			defer server.Close()
			found := check(t, server.URL, server.URL+"/count")
			others := slices.DeleteFunc(slices.Clone(found), func(f string) bool { return f == "race" || f == "cut" || f == "slow" }) // of which the last two need a coincidence
			if isKept && len(found) > 0 || !isKept && !slices.Contains(found, "race") || len(others) > 0 {
				t.Errorf("found %q", found)
			}
		})
	}
	redis, redisPort := startRedis(t)
	file := filepath.Join(t.TempDir(), "charges")
	for name, c := range map[string]struct {
		tier    testenv.Tier
		effects string
		want    []string
		command []string
	}{
		"map in Python": {testenv.InTest, "!cat " + file + " | wc -l", []string{"empty", "leaked", "malformed", "mismatch", "missing", "quoted", "two-lines"}, []string{"python3", "testdata/services/map.py", "{port}", file, "0"}},
		"SETNX":         {testenv.InProve, redis.effects(t), []string{"empty", "half-body", "header", "leaked", "malformed", "mismatch", "missing", "problem", "quoted", "retry-after", "two-lines"}, []string{"node", "testdata/services/setnx.js", "{port}", redisPort, "60000"}},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Cell(t, c.tier)
			t.Parallel()
			testenv.Need(t, "python3", "node")
			_, port, _ := net.SplitHostPort(freeAddress(t))
			c.command[2] = port
			cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
				t.Fatal(err)
			}
			found := check(t, "http://127.0.0.1:"+port, c.effects)
			if certain := slices.DeleteFunc(found, func(f string) bool { return f == "stuck" }); !slices.Equal(certain, c.want) { // that one needs a coincidence
				t.Errorf("found %q, want %q", certain, c.want)
			}
		})
	}
}
