//go:build linux

package testenv

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// victimEnv turns the test binary into a process that starts a server and waits
// to be killed.
const victimEnv = "ONCE_TESTENV_VICTIM"

func beVictim() {
	answers, err := startVictim(os.Getenv(victimEnv))
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	// Retire all the threads that can be: a server tied to one of them would die.
	var locked, retired sync.WaitGroup
	locked.Add(100)
	for range 100 {
		retired.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends here
			locked.Done()
			locked.Wait() // so that each has a thread of its own
		})
	}
	retired.Wait()
	runtime.GC() // nothing but the server's own goroutine knows the directory any more
	runtime.GC()
	if err := answers(); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("alive")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test lets go of it, or kills us
	os.Exit(0)
}

// startVictim starts a server, says where, and returns what asks it a question. That
// remembers no more of the server than clients do.
func startVictim(what string) (answers func() error, err error) {
	ctx := context.Background()
	if server, _, _ := strings.Cut(what, " "); server != "postgres" {
		m, err := StartMariaDB(ctx, MariaDBConfig{MySQL: server == "mysql"})
		if err != nil {
			return nil, err
		}
		fmt.Println(m.Pid(), m.dir.path)
		port := m.port
		return func() error { return (&MariaDB{port: port}).greets(ctx) }, nil
	}
	pg, err := StartPostgres(ctx, PostgresConfig{})
	if err != nil {
		return nil, err
	}
	fmt.Println(pg.Pid(), pg.dir.path)
	port := pg.port
	return func() error { _, err := psqlVersion(port); return err }, nil
}

func psqlVersion(port int) (string, error) {
	path, err := Binary("psql")
	if err != nil {
		return "", err
	}
	return psql(context.Background(), path, port, superuser, "show server_version")
}

// TestNothingOutlivesTheProcess kills a test process that has a busy server, and
// lets another one exit without a word.
func TestNothingOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql", "mariadb", "mysql")
	for how, processes := range map[string]int{
		"postgres kill": 3, "postgres exit": 3, "mariadb kill": 1, "mariadb exit": 1, "mysql kill": 1, "mysql exit": 1,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), victimEnv+"="+how)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			lines.Scan()
			number, dir, found := strings.Cut(lines.Text(), " ")
			pid, err := strconv.Atoi(number)
			if !found || err != nil {
				t.Fatalf("the victim says %q", lines.Text())
			}
			if lines.Scan(); lines.Text() != "alive" {
				t.Fatalf("the victim says %q", lines.Text())
			}
			if len(processesIn(t, filepath.Join(dir, "data"))) < processes {
				t.Error("the server is not running: the test would prove nothing")
			}
			if strings.HasSuffix(how, "kill") {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if err := stdin.Close(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if err := waitGone(pid); err != nil {
				t.Error("server:", err)
			}
			if err := poll(func() bool {
				_, err := os.Stat(dir)
				return os.IsNotExist(err)
			}); err != nil {
				t.Errorf("%s is still there: %v", dir, err)
			}
			if left := processesIn(t, filepath.Join(dir, "data")); len(left) > 0 {
				t.Errorf("processes %v survive", left)
			}
		})
	}
}

// processesIn lists the processes that work in a data directory, as all those of
// a server do.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.TrimSuffix(target, " (deleted)") == dir {
			found = append(found, filepath.Base(filepath.Dir(link)))
		}
	}
	return found
}
