//go:build !linux

package harness

import (
	"errors"
	"runtime"
)

// Stop refuses: no server of a test runs here.
func Stop() error {
	return errors.New("harness: processes are stopped on Linux only, this is " + runtime.GOOS)
}
