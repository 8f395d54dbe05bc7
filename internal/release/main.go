// Command release makes a release of all modules at once, at one version, and the binaries of the command. It says how to use the modules without a release.
//
//	go run ./internal/release use                        the lines by which the go.mod of another module uses this checkout
//	go run ./internal/release proxy v0.1.0 /tmp/proxy    a module proxy in files, to try the release
//	go run ./internal/release tag v0.1.0                 a commit without replace directives, and the tags
//	go run ./internal/release snapshot dist              the command for each system, in archives with their sums, which it checks
//
// The go.mod files of the tree replace the other modules of the tree by folders, so that a change of two modules is one commit. Other
// users cannot build such a module. In a release, each module requires the others at the version of the release.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) error {
	if len(args) == 1 && args[0] == "use" {
		r, err := read(ctx, "v0.0.0")
		if err != nil {
			return err
		}
		return r.use(w)
	}
	if len(args) == 2 && args[0] == "snapshot" {
		s, err := newSnapshot(ctx, args[1])
		if err != nil {
			return err
		}
		return s.make(w)
	}
	if len(args) == 3 && args[0] == "proxy" || len(args) == 2 && args[0] == "tag" {
		r, err := read(ctx, args[1])
		if err != nil {
			return err
		}
		if args[0] == "tag" {
			return r.tag(w)
		}
		return r.proxy(args[len(args)-1])
	}
	return fmt.Errorf("the command %q does not exist. Try: go run ./internal/release use, go run ./internal/release proxy v0.1.0 DIR, go run ./internal/release tag v0.1.0, or go run ./internal/release snapshot dist", args)
}
