//go:build !linux

package testenv

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// On this system no server is started that could be stopped.
const (
	stopSignal     = syscall.Signal(0)
	continueSignal = syscall.Signal(0)
)

// restrict returns an error: without a parent-death signal, servers would outlive a killed
// test.
func restrict(*exec.Cmd, identity, syscall.Signal) error {
	return errors.New("testenv: servers are started on Linux only, this is " + runtime.GOOS)
}

// crash does nothing, because nothing could be started.
func (*process) crash() error { return nil }

// sweep does nothing for the same reason.
func sweep(string) error { return nil }

// losesChild returns false, because there are no servers.
func losesChild(int) bool { return false }
