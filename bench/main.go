// Command bench measures the costs of once, against the bare transaction and the two usual hand-written ways of storing idempotency keys, on a
// PostgreSQL of its own.
//
//	go run . -o RESULTS.md
//
// Baselines and candidates take turns in short slices. The report has the ratios within a round, which are stable even if the load of the machine is
// not.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	m := Main{Stdout: os.Stdout}
	mode, serves := os.LookupEnv(serveMode)
	err := m.ParseFlags(os.Args[1:])
	switch {
	case err != nil:
	case mode == holdMode:
		err = holdLeases(ctx)
	case serves:
		err = serveHTTP(ctx, mode)
	default:
		err = m.Run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Main is the command.
type Main struct {
	Stdout   io.Writer
	bench    bench
	markdown string
	json     string
}

// ParseFlags reads the command line.
func (m *Main) ParseFlags(args []string) error {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	f.StringVar(&m.markdown, "o", "", "write the report to this `file`, with -only just those sections of it; default: standard output")
	f.StringVar(&m.json, "json", "", "write the figures to this `file`, too")
	f.IntVar(&m.bench.rounds, "rounds", 80, "rounds of every race")
	f.DurationVar(&m.bench.slice, "slice", 100*time.Millisecond, "how long a contestant works in one round")
	f.BoolVar(&m.bench.quick, "quick", false, "a look in a minute: few and short rounds, 10^5 keys instead of 10^6")
	f.StringVar(&m.bench.earlier, "earlier", "", "a `commit` with whose outbox that of this one is compared; the working directory is bench")
	f.IntVar(&m.bench.hooks.rounds, "webhook-rounds", 5, "rounds of the scenarios of the section webhook; 0: Send and Verify alone")
	f.DurationVar(&m.bench.hooks.window, "webhook-window", 3*time.Second, "how long one of them is measured")
	f.IntVar(&m.bench.hooks.waiting, "webhook-waiting", 100_000, "how many `deliveries` wait in them, and ten times as many in the largest")
	only := f.String("only", "", "comma-separated `sections`: "+strings.Join(sections, ", "))
	if err := f.Parse(args); err != nil {
		return err
	}
	if m.bench.quick {
		m.bench.rounds, m.bench.slice = 12, 60*time.Millisecond
	}
	return m.bench.choose(*only)
}

// Run measures and writes.
func (m *Main) Run(ctx context.Context) error {
	r, err := m.bench.run(ctx)
	if err != nil {
		return err
	}
	if m.json != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := publish(m.json, append(b, '\n')); err != nil {
			return err
		}
	}
	if m.markdown != "" {
		text := r.markdown()
		if old, err := os.ReadFile(m.markdown); err == nil && len(m.bench.only) > 0 {
			if text, err = r.splice(string(old)); err != nil {
				return err
			}
		}
		return publish(m.markdown, []byte(text))
	}
	_, err = io.WriteString(m.Stdout, r.markdown())
	return err
}

func publish(file string, text []byte) error {
	return os.WriteFile(file, text, 0o644) //nolint:gosec // made to be read by everyone
}
