package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/internal/base/lockedfile"
	"github.com/oncelib/once/internal/base/words"
)

var moveEntry = cli.Entry{
	Name: "home move", Args: "TENANT REGION", Brief: "move a tenant to another region, or assign a region to a new tenant",
	Help: `Moves a tenant to another region, in four steps:

  1. The old region starts no new transactions for the tenant, and waits until the running transactions of the
     tenant have ended.
  2. The program of --rows moves the rows of the service.
  3. One transaction copies the operations of the tenant to the new region and makes the new region the owner.
  4. The command deletes the copied operations in the old region.

During the move, requests of the tenant get a response with status 503, and clients may send them again with the same
key. If a move is killed, the tenant has one owner, or no owner. Without an owner, requests of the tenant still get
the status 503. To complete the move, run the same command again.

The command runs the program of --rows without arguments. The environment of the program has ONCE_TENANT, ONCE_FROM and
ONCE_TO (regions), ONCE_FROM_DB and ONCE_TO_DB (URLs), and ONCE_EPOCH. A second run of the program must do no harm,
because the command runs the program again after a move that was killed. The transactions of the program should begin
with

  select 1 from once_home where tenant = 'TENANT' and epoch = EPOCH and not owned for update

in the database of ONCE_TO. If the select statement returns no row, a later run has taken over the move, and the program
should stop. (For SQLite, leave out "for update".)`,
	Make: func() cli.Runner { return new(move) },
}

type move struct {
	regions    regions
	rows, pins string
}

func (c *move) Flags(fs *pflag.FlagSet) {
	c.regions.Flags(fs)
	fs.StringVar(&c.rows, "rows", "", "the `PROGRAM` that moves the rows of the service (default: the service has no rows to move)")
	fs.StringVar(&c.pins, "pins", "", "write the region of the tenant into this `FILE`, which services read with home.Map.ReadFile; the command creates the file if it is missing")
}

func (c *move) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) < 2 {
		return cli.Usage("TENANT or REGION is missing", "once home move TENANT REGION")
	}
	o, err := c.regions.open(ctx, m)
	if err != nil {
		return err
	}
	defer o.Close()
	mover := home.Mover{Regions: o.databases, Publish: func(_ context.Context, tenant string, p home.Pin) error {
		if c.pins == "" {
			return nil
		}
		return publish(c.pins, tenant, p)
	}}
	if c.rows != "" {
		mover.Rows = func(ctx context.Context, h home.Handover) error {
			cmd := exec.CommandContext(ctx, c.rows)
			cmd.Env = append(os.Environ(), "ONCE_TENANT="+h.Tenant, "ONCE_FROM="+h.From, "ONCE_TO="+h.To,
				"ONCE_FROM_DB="+o.urls[h.From], "ONCE_TO_DB="+o.urls[h.To], fmt.Sprint("ONCE_EPOCH=", h.Epoch))
			cmd.Stdout, cmd.Stderr = m.Stderr, m.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("the program of --rows has failed: %w", err)
			}
			return nil
		}
	}
	if err := mover.Move(ctx, args[0], args[1]); err != nil {
		return advised(c.regions.file, err)
	}
	fmt.Fprintf(m.Stdout, "the region of %s is %s\n", words.Shown(args[0]), words.Shown(args[1]))
	return nil
}

// publish writes a pin into a file of pins, unless the file has a later pin of the tenant. A reader sees the complete old file or the complete new
// file.
func publish(name, tenant string, p home.Pin) (err error) {
	// Two moves may publish at the same time, and each must keep the pin of the other.
	lock, err := lockedfile.Open(name + ".lock")
	if err != nil {
		return fmt.Errorf("lock the file %s: %w. Try: run the same command again when the other move has ended", name, err)
	}
	defer func() { _ = lock.Close() }()
	pins := map[string]home.Pin{}
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &pins)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, err)
	}
	// A later move has published already.
	if pins[tenant].Epoch >= p.Epoch {
		return nil
	}
	pins[tenant] = p
	if text, err = json.MarshalIndent(pins, "", "\t"); err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".next")
	if err := writeSynced(next, append(text, '\n')); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// writeSynced writes a file, and returns when the file is on the disk. A file that was renamed before that could be empty after a loss of power.
func writeSynced(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func printList(w io.Writer, list []home.Standing) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "TENANT\tREGION\tOWNED\tEPOCH\tREGION OF THE TENANT\n")
	for _, s := range list {
		lives := words.OrDash(s.Home)
		if s.Moving != "" {
			lives = fmt.Sprintf("no region at the moment, because a move has begun. To complete the move, run: once home move %s %s", words.Quoted(s.Tenant), words.Quoted(s.Moving))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", words.Shown(s.Tenant), words.Shown(s.Region), words.Either(s.Owned && s.Moving == "", "yes", "no"), s.Epoch, lives)
	}
	return t.Flush()
}
