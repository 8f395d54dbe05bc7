//go:build !unix || solaris || aix

package lockedfile

import (
	"errors"
	"os"
)

// These systems have no lock that ends with its process, or the lock was never tested there.
const (
	supported = false
	noFollow  = 0
)

func lock(*os.File) error { return errors.ErrUnsupported }
