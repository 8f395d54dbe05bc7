package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/internal/testenv"
)

// planVariable makes a test binary a process that does its part of a test. It holds a plan.
const planVariable = "ONCE_TORTURE_PLAN"

// patience bounds what should end by itself.
const patience = 2 * time.Minute

// longestLine is how long a line may be that a process prints.
const longestLine = 64 << 20

// Plan is what a process does. It travels as JSON.
type Plan interface {
	CarryOut(ctx context.Context) error
}

// Main is the TestMain of a package whose tests start processes with a plan P.
func Main[P Plan](m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are broken here on purpose
	text := os.Getenv(planVariable)
	if text == "" {
		testenv.Main(m)
		return
	}
	var p P
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.CarryOut(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// UntilDrained returns a context that ends with the standard input of this process: see [Child.Drain]. That ends with the tests as well.
func UntilDrained(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// Child is a process that carries out a plan.
type Child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string // of its standard output
	said  bytes.Buffer
	ended chan struct{}
	err   error       // after ended
	left  atomic.Bool // the test is over, and has left the process running
}

// wasKilled reports whether a process has ended by SIGKILL.
func wasKilled(s *os.ProcessState) bool {
	status, _ := s.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Start starts a process, under a tracer if there is one. If it has not ended when the test ends, it is killed, and its end is waited
// for: until then it may write into a directory that the test removes.
func Start(tb testing.TB, plan Plan, tracer ...string) *Child {
	tb.Helper()
	text, err := json.Marshal(plan)
	Must(tb, err)
	exe, err := os.Executable()
	Must(tb, err)
	args := append(slices.Clone(tracer), exe)
	c := &Child{cmd: exec.CommandContext(context.Background(), args[0], args[1:]...), lines: make(chan string, 1000), ended: make(chan struct{})}
	// The race detector's second of waiting at the exit is for reports of its own.
	race := strings.TrimSpace(os.Getenv("GORACE") + " atexit_sleep_ms=0")
	c.cmd.Env = append(os.Environ(), planVariable+"="+string(text), "GORACE="+race)
	c.cmd.Stderr = &c.said
	c.stdin, err = c.cmd.StdinPipe()
	Must(tb, err)
	out, err := c.cmd.StdoutPipe()
	Must(tb, err)
	Must(tb, c.cmd.Start())
	go func() {
		read := bufio.NewScanner(out)
		read.Buffer(nil, longestLine)
		for read.Scan() {
			c.lines <- read.Text()
		}
		close(c.lines)
		if c.err = c.cmd.Wait(); wasKilled(c.cmd.ProcessState) && !c.left.Load() {
			testenv.Count("processes killed", 1)
		}
		close(c.ended)
	}()
	tb.Cleanup(func() {
		c.left.Store(true)
		_ = c.cmd.Process.Kill()
		c.drop()
		select {
		case <-c.ended:
		case <-time.After(10 * time.Second): // a process that a tracer leaves behind may keep the output open
		}
	})
	return c
}

// Lines are what the process prints, until it ends.
func (c *Child) Lines() <-chan string { return c.lines }

// Wait waits until the process prints a line, and reports whether it has, or has ended before.
func (c *Child) Wait(line string) bool {
	for said := range c.lines {
		if said == line {
			return true
		}
	}
	return false
}

// Signal sends a signal to the process, which may have ended.
func (c *Child) Signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// UntilStopped waits until the process has stopped, see [Stop], or has ended, and reports whether it has stopped.
func (c *Child) UntilStopped(tb testing.TB) (stopped bool) {
	tb.Helper()
	Until(tb, func() error {
		select {
		case <-c.ended:
			return nil
		default:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		if err != nil {
			return fmt.Errorf("a process that stops: %w", err)
		}
		_, state, _ := bytes.Cut(text, []byte(") "))
		if stopped = bytes.HasPrefix(state, []byte("T")); !stopped {
			return fmt.Errorf("a process has not stopped, its state is %.1s", state)
		}
		testenv.Count("processes stopped", 1)
		return nil
	})
	return stopped
}

// Kill kills the process, and waits for its end.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	c.drop()
	<-c.ended
}

// drop leaves what the process prints unread, so that it can end.
func (c *Child) drop() {
	go func() {
		for range c.lines {
		}
	}()
}

// End waits for the end of the process, and returns what it has printed that was not read before, and whether it was killed.
// Any other end but success is an error of the test.
func (c *Child) End(tb testing.TB) (lines []string, killed bool) {
	tb.Helper()
	lines, killed, err := c.Ends()
	Must(tb, err)
	return lines, killed
}

// Ends is [Child.End] with an error in place of a test that fails.
func (c *Child) Ends() (lines []string, killed bool, err error) {
	timeout := time.After(patience)
	for {
		select {
		case line, more := <-c.lines:
			if more {
				lines = append(lines, line)
				continue
			}
			<-c.ended
		case <-timeout:
			return lines, false, errors.New("a process does not end")
		}
		break
	}
	if killed = wasKilled(c.cmd.ProcessState); killed || c.err == nil {
		return lines, killed, nil
	}
	return lines, false, fmt.Errorf("a process: %w: %s", c.err, strings.TrimSpace(c.said.String()))
}

// EndInput ends the standard input of the process: see [UntilDrained].
func (c *Child) EndInput() { _ = c.stdin.Close() }

// Drain ends the standard input of the process, as the operator of a service ends it, and waits until it has ended well.
func (c *Child) Drain(tb testing.TB) {
	tb.Helper()
	c.EndInput()
	c.drop()
	select {
	case <-c.ended:
		if c.err != nil {
			tb.Errorf("a process that is drained: %v: %s", c.err, c.said.String())
		}
	case <-time.After(patience):
		tb.Error("a process that is drained does not end")
	}
}

// Ended is closed when the process has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }
