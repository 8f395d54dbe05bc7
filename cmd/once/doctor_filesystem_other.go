//go:build !linux

package main

// filesystem is known on Linux only.
func filesystem(string) (string, error) { return "", nil }
