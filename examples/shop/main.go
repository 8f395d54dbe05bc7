// Command shop is two services that share no database. Orders takes orders over HTTP; shipping ships them. Each tells the other by events, through an
// outbox, a broker and an inbox. Kill them as you like: each order is shipped once, and none is lost.
//
//	go run ./examples/shop         # both services, and a NATS server
//	go run ./examples/shop kill    # in another terminal: orders, kill -9, and a count
//
// The README has the rest. Read service.go first: it has all the wiring.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(failed)
	}
}

// failed is the exit code of a process that has ended by itself. One that was killed has another one.
const failed = 2

func run(ctx context.Context, args []string) error {
	command := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	cfg := newConfig()
	storm := storm{config: cfg}
	if command == "kill" {
		storm.flags(cfg.flags)
	}
	_ = cfg.flags.Parse(args) // it exits
	cfg.useFiles()
	switch command {
	case "":
		return cfg.supervise(ctx, args)
	case "kill":
		return storm.run(ctx, os.Stdout)
	}
	for i, s := range services {
		if s.name == command {
			return s.run(ctx, cfg, i)
		}
	}
	return fmt.Errorf("the command %q does not exist. Try: kill, or no command", command)
}

// config is what the command line says to all processes of the shop.
type config struct {
	flags    *flag.FlagSet
	dir      string
	port     int
	database map[string]*string // of each service
}

func newConfig() *config {
	cfg := &config{flags: flag.NewFlagSet("shop", flag.ExitOnError), database: map[string]*string{}}
	cfg.flags.StringVar(&cfg.dir, "dir", "shop-data", "`FOLDER` of the databases and the streams")
	cfg.flags.IntVar(&cfg.port, "port", 8080, "`FIRST` of five ports: orders, shipping, the metrics of each, NATS")
	for _, s := range services {
		cfg.database[s.name] = cfg.flags.String(s.name+"-db", "", "`URL` of its database, such as postgres://localhost/"+s.name+" (default: SQLite, a file in -dir)")
	}
	return cfg
}

// useFiles has services without a database use SQLite.
func (cfg *config) useFiles() {
	for name, db := range cfg.database {
		if *db == "" {
			*db = "file:" + filepath.ToSlash(filepath.Join(cfg.dir, name+".db")) + pragmas
		}
	}
}

// address is that of one of the five ports.
func (cfg *config) address(i int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.port+i))
}

func (cfg *config) serving(service int) string { return cfg.address(service) }
func (cfg *config) metrics(service int) string { return cfg.address(len(services) + service) }
func (cfg *config) broker() string             { return cfg.address(2 * len(services)) }
