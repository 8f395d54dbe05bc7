package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

var transferEntry = cli.Entry{
	Name: "demo transfer", Brief: "kill two banks and the clearing house between them, then count the money",
	Help: `Starts two banks, each with a separate database, and a clearing house between the banks. The first bank has
two nodes. Each node, the second bank and the clearing house are separate processes. Clients send transfers from the
first bank to the second bank. A transfer is a saga (package saga) with three steps: the saga withdraws the money, asks
the second bank to deposit the money, and confirms the transfer. The second bank implements the undo of a deposit with
once.Undo over HTTP: the second bank takes the deposit back, or refuses the deposit if the deposit arrives after the
undo.

The clearing house loses some requests and responses, sends some requests twice, and delivers some deposits after their
undo. Each step refuses some transfers. Meanwhile the demo kills each process (SIGKILL) again and again, and starts it
again.

Whenever no transfer is running, the demo counts the money at both banks. The exit code is 0 only if no cent is
lost or created, every client received the true outcome, and no transfer is stuck.

The database of the second bank is always a new SQLite file.`,
	Make: func() cli.Runner { return new(transfer) },
}

type transfer struct{ frame }

func (c *transfer) Flags(fs *pflag.FlagSet) {
	c.flags(fs, 96, fmt.Sprintf("the `NUMBER` of transfers that the clients send, at least %d", killstorm.LeastTransfers), "when the demo kills processes", "`FILE` for the logs of the processes")
}

const (
	transferNodes   = 2
	transferClients = 8
	transferKills   = 3 // of each process
)

func (c *transfer) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := c.check(killstorm.LeastTransfers, 96); err != nil {
		return err
	}
	return c.run(m, "once demo transfer --ops 48 --log storm.log, then read storm.log", func(src database, progress func(killstorm.Progress)) (outcome, error) {
		return c.storm(ctx, src, progress)
	})
}

func (c *transfer) storm(ctx context.Context, src database, progress func(killstorm.Progress)) (o outcome, err error) {
	files, err := os.MkdirTemp("", "once-demo-transfer-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(files)) }()
	other, err := openSource("sqlite:" + filepath.Join(files, "other-bank.db"))
	if err != nil {
		return o, err
	}
	cfg := killstorm.TransfersConfig{
		Orders: c.ops, Clients: transferClients, Kills: transferKills, Seed: c.seed, Session: session(), Progress: progress,
		ClearingFile: filepath.Join(files, "clearing"),
	}
	for i, bank := range []database{src, other} {
		if err := prepare(ctx, bank, killstorm.BankTables()); err != nil {
			return o, err
		}
		if cfg.Banks[i], err = witness(ctx, bank, cfg.Session); err != nil {
			return o, err
		}
		defer cfg.Banks[i].DB.Close()
	}
	log, err := c.openLog()
	if err != nil {
		return o, err
	}
	defer log.Close()
	c.processes(&cfg, src, other, log)
	r, err := killstorm.RunTransfers(ctx, cfg)
	return outcome{r, r.OK, func(w io.Writer) error { return c.print(w, r, src) }}, err
}

// processes are further processes of this program.
func (c *transfer) processes(cfg *killstorm.TransfersConfig, src, other database, log io.Writer) {
	process := func(args func() []string) *killstorm.Server {
		s := c.server(args)
		s.Log = log
		return s
	}
	cfg.Other = process(func() []string { return []string{"demo", "bank", "--db", other.url} })
	cfg.Clearing = process(func() []string {
		return []string{"demo", "clear", "--file", cfg.ClearingFile, "--to", cfg.Other.Address()}
	})
	for range transferNodes {
		cfg.Nodes = append(cfg.Nodes, process(func() []string {
			return []string{"demo", "bank", "--db", withSession(src, cfg.Session), "--clearing", cfg.Clearing.Address(), "--session", cfg.Session}
		}))
	}
}

// print explains the kills, and where the money is, to a reader who does not know the demo.
func (c *transfer) print(w io.Writer, r killstorm.TransfersReport, src database) error {
	fmt.Fprintf(w, "\nonce demo transfer\n%d transfers by %d clients in %s, on %s and a second database, seed %d\n\n",
		r.Transfers, transferClients, r.Took.Round(100*time.Millisecond), src.Name, c.seed)
	f := newFigures(w)
	f.head("faults in this run")
	f.row(r.BankKills, fmt.Sprintf("times one of %d nodes of the first bank was killed (SIGKILL)", r.Nodes))
	f.row(r.OtherKills, "times the second bank was killed")
	f.row(r.ClearingKills, "times the clearing house was killed")
	f.row(r.Unknown, "transfers got no answer to their deposit")
	f.head("requests to the second bank to undo a deposit")
	f.row(r.Undone, "deposits that the second bank took back")
	f.row(r.Nothing, "deposits that the bank must refuse later, because the request to undo arrived before the deposit")
	f.row(r.Refused, "deposits arrived after the request to undo, and the bank refused these deposits")
	f.head("end of the transfers")
	f.row(r.Completed, "transfers have completed")
	f.row(r.Compensated, "transfers have been undone")
	f.row(r.Stuck, "transfers are stuck")
	f.head(fmt.Sprintf("money, counted %d times while no transfer was running", r.Points))
	f.row(int(r.MoneyLost), "cents lost")
	f.row(int(r.MoneyCreated), "cents created")
	if err := f.verdict(r.OK, "no money is lost or created, and every client received the true outcome.", r.Reasons); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNext: the transfers as operations of the first bank\n  %s keys list --state done --db %s\n", self(), src.Paste)
	return err
}
