package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clockFile is the file in a server's directory that says by how much the server's clock differs from the machine's.
const clockFile = "clock"

// newClock makes the clock of a server that runs as who, and returns the environment that gives the server this clock. The
// monotonic clock stays unchanged, because it does not jump either when an administrator sets the time.
func newClock(dir string, who identity) (env []string, err error) {
	library, err := clockLibrary()
	if err != nil {
		return nil, err
	}
	if err := setClock(dir, who, 0); err != nil {
		return nil, err
	}
	return []string{
		"LD_PRELOAD=" + library, "FAKETIME_TIMESTAMP_FILE=" + filepath.Join(dir, clockFile),
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1",
	}, nil
}

// setClock replaces the file as a whole, so that no reader sees a part of it.
func setClock(dir string, who identity, ahead time.Duration) error {
	path := filepath.Join(dir, clockFile)
	err := os.WriteFile(path+".new", fmt.Appendf(nil, "%+f\n", ahead.Seconds()), 0o600)
	if err == nil {
		err = who.own(path + ".new")
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}

// clockLibrary returns the path of libfaketime, which the package faketime contains.
func clockLibrary() (string, error) {
	for _, pattern := range []string{"/usr/lib/*/faketime/", "/usr/lib/faketime/", "/usr/lib64/faketime/", "/usr/local/lib/faketime/"} {
		if found, err := filepath.Glob(pattern + "libfaketimeMT.so.1"); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("testenv: libfaketime is in none of the usual directories: %w", os.ErrNotExist)
}
