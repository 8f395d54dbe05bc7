//go:build !unix || solaris || aix

package journal

import (
	"errors"
	"os"
)

// Here is no lock that ends with its process, or none that was ever tried, and open refuses.

func lock(*os.File) error { return errors.ErrUnsupported }

func syncDir(string) error { return errors.ErrUnsupported }
