//go:build !unix || solaris || aix

package journal

import "errors"

func syncDir(string) error { return errors.ErrUnsupported }
