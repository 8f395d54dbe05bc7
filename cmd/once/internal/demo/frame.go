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

// frame has the shared parts of all storms: their flags, their database and their end.
type frame struct {
	ops  int
	db   string
	seed uint64
	log  string
	json bool
	self string // the path of this program
}

const mostOps = 1_000_000

// flags adds the shared flags. ops is the default number of operations.
func (f *frame) flags(fs *pflag.FlagSet, ops int, opsUsage, decides, logUsage string) {
	fs.IntVar(&f.ops, "ops", ops, opsUsage)
	fs.StringVar(&f.db, "db", "", cli.DBUsage+" (default: a new SQLite file)")
	cli.OnCommandLine(fs, "db")
	fs.Uint64Var(&f.seed, "seed", 0, decides+" (default: a new number)")
	fs.StringVar(&f.log, "log", "", logUsage)
	fs.BoolVar(&f.json, "json", false, "print the result as one JSON object")
}

// check returns an error if the flags make no valid storm.
func (f *frame) check(least, usual int) error {
	if f.ops < least || f.ops > mostOps {
		return cli.Usage(fmt.Sprintf("--ops %d is too small or too large", f.ops), fmt.Sprintf("--ops %d", usual))
	}
	return nil
}

// outcome is the result of a storm.
type outcome struct {
	report any // for --json
	ok     bool
	print  func(w io.Writer) error
}

// run runs a storm on its database, and prints its result. try is advice for a storm that cannot run.
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
		if err != nil && !errors.Is(err, cli.ErrSaid) { // a storm that was lost has printed its result, and its database is the evidence
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
			err = os.RemoveAll(filepath.Dir(src.Path)) // a script does not need the database
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

// openLog opens the file for the output of the processes. Without --log it discards the output.
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

// session returns a unique name for a storm.
func session() string { return "demo-" + strings.ToLower(rand.Text())[:8] }

// server returns this program as a server in another process, with args and the flag --listen.
func (f *frame) server(args func() []string) *killstorm.Server {
	return &killstorm.Server{Command: func(address string) *exec.Cmd {
		return exec.Command(f.self, append(args(), "--listen", address)...) //nolint:noctx // the storm ends it
	}}
}

// worker returns this program as a process that serves no requests, with args.
func (f *frame) worker(args func() []string) *killstorm.Server {
	return &killstorm.Server{
		Command: func(string) *exec.Cmd { return exec.Command(f.self, args()...) }, //nolint:noctx // likewise
		Ready:   func(context.Context, string) bool { return true },
	}
}

// figures prints numbers with their meaning, in groups.
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

// verdict prints the last lines: the promise that was kept, or the reasons why it was not.
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

// self is the command by which the user has called this program, so that the next line can be copied.
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
