//go:build !unix || solaris || aix

package journal

import "os"

// Here it is up to the user that one process at a time has a journal, and up to the file
// system that a renamed file stays renamed.

func lock(*os.File) error { return nil }

func syncDir(string) error { return nil }
