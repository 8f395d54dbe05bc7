package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

// frame is what the storms have in common: their flags, their database and how they end.
type frame struct {
	ops  int
	db   string
	seed uint64
	log  string
	json bool
	self string // this program
}

const mostOps = 1_000_000

// flags adds the flags that all storms have. ops are how many there are unless the command line says otherwise.
func (f *frame) flags(fs *pflag.FlagSet, ops int, opsUsage, decides, logUsage string) {
	fs.IntVar(&f.ops, "ops", ops, opsUsage)
	fs.StringVar(&f.db, "db", "", cli.DBUsage+" (default: a new SQLite file)")
	cli.OnCommandLine(fs, "db")
	fs.Uint64Var(&f.seed, "seed", 0, "`NUMBER` that decides "+decides+" (default: a new one)")
	fs.StringVar(&f.log, "log", "", logUsage)
	fs.BoolVar(&f.json, "json", false, "print the result as one JSON object")
}

// check refuses what makes no storm.
func (f *frame) check(least, usual int) error {
	if f.ops < least || f.ops > mostOps {
		return cli.Usage(fmt.Sprintf("--ops %d makes no storm", f.ops), fmt.Sprintf("--ops %d", usual))
	}
	return nil
}

// outcome is how a storm has ended.
type outcome struct {
	report any // for --json
	ok     bool
	print  func(w io.Writer) error
}

// run makes a storm on its database, and prints what has become of it. try is how to find out why a storm cannot be made.
func (f *frame) run(m *cli.Env, try string, storm func(src database, progress func(killstorm.Progress)) (outcome, error)) (err error) {
	if f.seed == 0 {
		f.seed = uint64(mrand.Uint32())
	}
	if f.self, err = os.Executable(); err != nil {
		return err
	}
	src, err := openSource(f.db)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, cli.ErrSaid) { // after a storm that was lost it is evidence
			src.discard()
		}
	}()
	meter := newMeter(m.Stderr)
	o, err := storm(src, meter.show)
	meter.end()
	if err != nil {
		return fmt.Errorf("%w. Try: %s", err, try)
	}
	if f.json {
		if f.db == "" && o.ok {
			err = os.RemoveAll(filepath.Dir(src.Path)) // scripts do not want to look into it
		}
		err = errors.Join(err, json.NewEncoder(m.Stdout).Encode(o.report))
	} else {
		err = o.print(m.Stdout)
	}
	if err == nil && !o.ok {
		return cli.ErrSaid
	}
	return err
}

// openLog opens the file for what the processes write. Without --log it keeps nothing.
func (f *frame) openLog() (io.WriteCloser, error) {
	if f.log == "" {
		return noLog{io.Discard}, nil
	}
	file, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w. Try: --log with a file that can be written", err)
	}
	return file, nil
}

type noLog struct{ io.Writer }

func (noLog) Close() error { return nil }

// session is a name of a storm that no other one has.
func session() string { return "demo-" + strings.ToLower(rand.Text())[:8] }

// server is this program once more, with args and an address to listen at.
func (f *frame) server(args func() []string) *killstorm.Server {
	return &killstorm.Server{Command: func(address string) *exec.Cmd {
		return exec.Command(f.self, append(args(), "--listen", address)...) //nolint:noctx // the storm ends it
	}}
}

// worker is this program once more, with args. It takes no requests.
func (f *frame) worker(args func() []string) *killstorm.Server {
	return &killstorm.Server{
		Command: func(string) *exec.Cmd { return exec.Command(f.self, args()...) }, //nolint:noctx // likewise
		Ready:   func(context.Context, string) bool { return true },
	}
}

// figures prints numbers with what they count, in groups.
type figures struct {
	w io.Writer
	t *tabwriter.Writer
}

func newFigures(w io.Writer) figures {
	return figures{w, tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.AlignRight)}
}

func (f figures) head(s string) {
	_ = f.t.Flush()
	fmt.Fprintf(f.w, "  %s\n", s)
}

func (f figures) row(n int, what string) { fmt.Fprintf(f.t, "    %d\t  %s\n", n, what) }

// verdict ends the figures: with what holds, or with why it does not.
func (f figures) verdict(ok bool, holds string, reasons []string) error {
	if err := f.t.Flush(); err != nil {
		return err
	}
	if ok {
		_, err := fmt.Fprintf(f.w, "\nOK: %s\n", holds)
		return err
	}
	const most = 10
	if more := len(reasons) - most; more > 0 {
		reasons = append(reasons[:most:most], fmt.Sprintf("and %d more", more))
	}
	_, err := fmt.Fprintf(f.w, "\nNOT OK\n  %s\n", strings.Join(reasons, "\n  "))
	return err
}

// self is how the user has called this program, so that the next line can be copied.
func self() string {
	info, ok := debug.ReadBuildInfo()
	folder, isOurs := "", false
	if ok {
		folder, isOurs = strings.CutPrefix(info.Path, "github.com/oncelib/once/")
	}
	if isOurs && strings.Contains(os.Args[0], string(filepath.Separator)+"go-build") {
		return "go run ./" + folder
	}
	return "once"
}
