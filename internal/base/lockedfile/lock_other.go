//go:build !unix || solaris || aix

package lockedfile

import (
	"errors"
	"os"
)

// Here is no lock that ends with its process, or none that was ever tried.
const (
	supported = false
	noFollow  = 0
)

func lock(*os.File) error { return errors.ErrUnsupported }
