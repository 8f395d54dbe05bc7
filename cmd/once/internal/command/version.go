package command

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

var versionEntry = cli.Entry{
	Name: "version", Brief: "print the version of this command",
	Help: "Prints the version of this command, the version of the database schema that the command expects, and the version of Go.",
	Make: func() cli.Runner { return versionCommand{} },
}

type versionCommand struct{}

func (versionCommand) Flags(*pflag.FlagSet) {}

func (versionCommand) Run(_ context.Context, m *cli.Env, _ []string) error {
	all, err := migration.All(sqlplane.PostgreSQL, migrate.Capabilities...)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "once %s, schema %s, %s %s/%s\n", version(), migration.Newest(all), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// version returns the version of the module, or the commit if the program was built in a checkout.
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
