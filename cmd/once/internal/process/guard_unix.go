//go:build unix

package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

const isGuarded = true

// setAside gives the guard a process group of its own, so that it does not get the signal of Ctrl-C.
func setAside(guard *exec.Cmd) { guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Guard must be called first by main. It returns, unless this process is a guard.
func Guard() {
	if os.Getenv(guarding) == "" {
		return
	}
	if err := os.Unsetenv(guarding); err != nil || len(os.Args) < 2 {
		os.Exit(2)
	}
	os.Exit(guard(os.Args[1], os.Args[2:]))
}

func guard(name string, args []string) (code int) {
	// Caught, and not ignored: a command would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	runtime.LockOSThread() // the parent-death signal of the command depends on this thread
	adopt()
	cmd := exec.CommandContext(context.Background(), name, args...) //nolint:gosec // the guard exists to run it
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attributes()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	ended, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the guard takes its exit code from the process state
	}()
	go func() {
		defer close(left)
		_, _ = io.Copy(io.Discard, os.Stdin) // an error also means that the parent process has ended
	}()
	select {
	case <-left:
	case <-ended:
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an error means that the group has ended already
	<-ended
	endAdopted()
	return cmd.ProcessState.ExitCode()
}
