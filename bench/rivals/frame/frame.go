// Package frame is what the comparisons share: their command line, and the server that they run against.
package frame

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/oncelib/once/internal/testenv"
)

// Main writes the report to a file or to the standard output. quick is what the flag of that name changes.
func Main(quick string, report func(ctx context.Context, quick bool) (string, error)) {
	out := flag.String("o", "", "file to write; default: standard output")
	short := flag.Bool("quick", false, quick)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	text, err := report(ctx, *short)
	stop()
	switch {
	case err != nil:
	case *out == "":
		fmt.Print(text)
	default:
		err = os.WriteFile(*out, []byte(text), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Postgres starts a private server whose commits are real, and that does nothing by itself meanwhile.
func Postgres(ctx context.Context) (*testenv.Postgres, error) {
	return testenv.StartPostgres(ctx, testenv.PostgresConfig{Settings: map[string]string{
		"fsync": "on", "synchronous_commit": "on", "shared_buffers": "1GB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "off", "max_connections": "200",
	}})
}

// Load is how many processes want to run on the machine, as an average of a minute.
func Load() string {
	b, _ := os.ReadFile("/proc/loadavg") // not there: not told
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
