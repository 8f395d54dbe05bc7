//go:build !unix || solaris || aix

package lockedfile

import (
	"errors"
	"os"
)

// This system has no lock that ends with its process, or it was never tested here.
const (
	supported = false
	noFollow  = 0
)

func lock(*os.File) error { return errors.ErrUnsupported }
