// Command release makes a release of all modules at once, at one version.
//
//	go run ./internal/release proxy v0.1.0 /tmp/proxy    a module proxy in files, to try the release
//	go run ./internal/release tag v0.1.0                 a commit without replace directives, and the tags
//
// The go.mod files of the tree replace their siblings by folders, so that a change of two
// modules is one commit. Nobody else can build such a module. In a release each of them
// requires its siblings at the version of the release.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "proxy":
		r, err := read(args[1])
		if err != nil {
			return err
		}
		return r.proxy(args[2])
	case len(args) == 2 && args[0] == "tag":
		r, err := read(args[1])
		if err != nil {
			return err
		}
		return r.tag(w)
	}
	return fmt.Errorf("%q is no command. Try: go run ./internal/release proxy v0.1.0 DIR, or go run ./internal/release tag v0.1.0", args)
}
