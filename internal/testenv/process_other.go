//go:build !linux

package testenv

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// No server is started here that could be stopped.
const (
	stopSignal     = syscall.Signal(0)
	continueSignal = syscall.Signal(0)
)

// restrict refuses: without a parent-death signal servers would outlive a
// killed test.
func restrict(*exec.Cmd, identity, syscall.Signal) error {
	return errors.New("testenv: servers are started on Linux only, this is " + runtime.GOOS)
}

// crash has nothing to kill, because nothing could be started.
func (*process) crash() error { return nil }

// sweep has nothing to kill either.
func sweep(string) error { return nil }

// losesChild knows of no children.
func losesChild(int) bool { return false }
