package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a running server. It dies with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the server has been reaped
	err  error         // the result of Wait; valid after done is closed
}

// startProcess starts cmd as the given user. The kernel sends it the death signal when this process ends, however it
// ends.
//
// The kernel ties that signal to the thread that has forked, and not to the process. If Go ended that thread, a healthy server
// would die. So one goroutine keeps its thread locked as long as the server lives. The goroutine also refers to keep. So what
// the server needs is not finalised while a caller remembers only its URL.
func startProcess(cmd *exec.Cmd, who identity, death syscall.Signal, keep any) (*process, error) {
	if err := restrict(cmd, who, death); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		runtime.KeepAlive(keep)
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("testenv: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// running reports whether the server has not been reaped yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop sends a signal and waits for the end. If the server still runs after the patience, stop
// crashes it.
func (p *process) stop(sig syscall.Signal, patience time.Duration) error {
	if !p.running() {
		return nil
	}
	// An error means that the process has ended meanwhile, as it should.
	_ = p.cmd.Process.Signal(sig)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return p.crash()
	}
}

// runTool runs a program to its end, and returns its standard output. An error contains its standard
// error.
func runTool(ctx context.Context, who identity, input, path string, args ...string) (string, error) {
	// Locked for the same reason as in startProcess.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = cleanEnv()
	cmd.Dir = "/" // the user of the program may have no access to the caller's directory
	cmd.Stdin = strings.NewReader(input)
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := restrict(cmd, who, syscall.SIGKILL); err != nil {
		return "", err
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return "", fmt.Errorf("testenv: %s: %w: %s", filepath.Base(path), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

// cleanEnv returns the environment without variables that would make programs use another server or another
// language.
func cleanEnv() []string {
	env := []string{"LC_ALL=C.UTF-8"}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "PG"), strings.HasPrefix(name, "MYSQL_"), strings.HasPrefix(name, "MARIADB_"):
		case strings.HasPrefix(name, "LC_"), name == "LANG", name == "LANGUAGE":
		case name == "NOTIFY_SOCKET": // otherwise servers would report to our service manager
		default:
			env = append(env, entry)
		}
	}
	return env
}
