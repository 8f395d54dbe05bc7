package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

var shopEntry = cli.Entry{
	Hidden: true, Name: "demo shop", Brief: "internal: a service without idempotency keys in \"once demo gateway\"",
	Help: `Charges cards until the command is interrupted. A request can name a point at which this process must die:
the process then kills itself at that point. "once demo gateway" starts this command if Python or Node is not
installed.`,
	Make: func() cli.Runner { return new(shop) },
}

type shop struct {
	listen, db string
	receipts   bool
}

func (c *shop) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve at")
	fs.StringVar(&c.db, "db", "", cli.DBUsage)
	cli.OnCommandLine(fs, "db")
	fs.BoolVar(&c.receipts, "receipts", false, "write a receipt in the transaction of each charge")
}

func (c *shop) Run(ctx context.Context, _ *cli.Env, _ []string) error {
	db, err := cli.OpenDatabase(ctx, c.db, false)
	if err != nil {
		return err
	}
	return errors.Join(serveAt(ctx, c.listen, killstorm.Shop{DB: db.DB, Receipts: c.receipts}), db.Close())
}

// language is the programming language of a shop.
type language struct {
	name    string // with its version
	instead string // why it replaces the intended language; "" if it is the intended one
	command func(db, address string, receipts bool) []string
}

func (l language) String() string {
	if l.instead == "" {
		return l.name
	}
	return l.name + " (" + l.instead + ")"
}

// shop returns a shop in this language, which serves in a process of its own.
func (l language) shop(db string, receipts bool, log io.Writer) *killstorm.Server {
	return &killstorm.Server{Log: log, Command: func(address string) *exec.Cmd {
		args := l.command(db, address, receipts)
		return exec.Command(args[0], args[1:]...) //nolint:noctx // the storm ends it
	}}
}

// inGo returns the shop that is a part of this program.
func (f *frame) inGo(instead string) language {
	return language{"Go", instead, func(db, address string, receipts bool) []string {
		return []string{f.self, "demo", "shop", "--db", "sqlite:" + db, "--listen", address, fmt.Sprintf("--receipts=%t", receipts)}
	}}
}

// interpreter runs a shop that is not in Go.
type interpreter struct {
	name, program string
	probe         []string // arguments that print the path of the program and its version, if the program has all that the shop needs
	lacks         string   // the missing part if the probe fails
	file          string
	source        []byte
}

var interpreters = []interpreter{
	{
		"Python", "python3", []string{"-c", "import sys, sqlite3, http.server\nhttp.server.ThreadingHTTPServer\nprint(sys.executable)\nprint(sys.version.split()[0])"},
		"this python3 has no sqlite3", "shop.py", killstorm.ShopPython,
	},
	{
		"Node", "node", []string{"-e", "require('node:sqlite'); console.log(process.execPath); console.log(process.versions.node)"},
		"this version of Node has no node:sqlite; use Node 22.13 or later", "shop.mjs", killstorm.ShopNode,
	},
}

const probePatience = 20 * time.Second

// languageFor writes the source of a shop into a folder, and returns its language. It is Go if the interpreter is not sufficient.
func (f *frame) languageFor(ctx context.Context, i interpreter, dir string) (language, error) {
	path, err := exec.LookPath(i.program)
	if err != nil {
		return f.inGo(i.program + " is not installed"), nil
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, i.probe...).Output()
	said := strings.Fields(string(out))
	if err != nil || len(said) != 2 {
		return f.inGo(i.lacks), nil
	}
	source := filepath.Join(dir, i.file)
	return language{i.name + " " + said[1], "", func(db, address string, receipts bool) []string {
		_, port, _ := net.SplitHostPort(address) // it cannot fail, because this program has made the address
		args := []string{said[0], source, db, port}
		if receipts {
			args = append(args, "receipts")
		}
		return args
	}}, os.WriteFile(source, i.source, 0o600)
}
