//go:build !linux

package doctor

// filesystem is known on Linux only.
func filesystem(string) (string, error) { return "", nil }
