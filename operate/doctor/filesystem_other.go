//go:build !linux

package doctor

// filesystem returns "", because the kind of a file system is known only on Linux.
func filesystem(string) (string, error) { return "", nil }
