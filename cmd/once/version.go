package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

var versionEntry = entry{
	name: "version", brief: "which once this is",
	help: "Prints the version of once, of the schema that it expects, and of Go.",
	make: func() command { return versionCommand{} },
}

type versionCommand struct{}

func (versionCommand) flags(*flag.FlagSet) {}

func (versionCommand) run(_ context.Context, m *Main, _ []string) error {
	all, err := migration.All(store.PostgreSQL, capabilities...)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "once %s, schema %s, %s %s/%s\n", version(), newest(all), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// version is that of the module, or the commit where it was built in a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && version == "(devel)" && len(s.Value) >= 12 {
			version += " " + s.Value[:12]
		}
	}
	return version
}
