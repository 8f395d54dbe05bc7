// Package archive has the commands of once archive: operations that were swept into files.
package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/keys"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store/sqlstore"
)

// Noun is once archive.
var Noun = cli.Noun{
	Name: "archive", Brief: "archives: files with the rows that a sweep has deleted", Group: cli.GroupOperate,
	Entries: []cli.Entry{verifyEntry, showEntry, restoreEntry},
}

var (
	verifyEntry = cli.Entry{
		Name: "archive verify", Args: "DIR", Brief: "compare the files of an archive with their checksums",
		Help: `Reads every segment (a file of rows) that a sweep with --archive has written. The command compares
the size, the SHA-256 and the number of rows of each segment with the manifest of the archive. The
exit code is 1 if a segment is damaged or missing.`,
		Make: func() cli.Runner { return new(verify) },
	}
	showEntry = cli.Entry{
		Name: "archive show", Args: "DIR KEY", Brief: "print the rows of an archive for an idempotency key, a message or a receipt",
		Help: `Prints the operations of the archive whose key is KEY, in the same form as "once keys show". If a client used KEY again
after KEY had expired, the archive can have several operations with KEY. The command prints all operations with KEY. The
exit code is 3 if the archive has no row for KEY.

With --table, the command searches the rows of the given table instead of operations. The table decides the meaning of
KEY:

  once_outbox_sent      the ID of a delivered message; --scope is the topic of the message
  once_receipt          the operation of a receipt
  once_webhook_event    the ID of an event (msg_...)
  once_webhook_attempt  the number of an event: the column id of the row of the event

The command prints the columns as the database stored them: bytes in base64, and encrypted columns still
encrypted. Bodies and headers are printed only with --payload.`,
		Make: func() cli.Runner { return new(show) },
	}
	restoreEntry = cli.Entry{
		Name: "archive restore", Args: "DIR FILE", Brief: "write the operations of an archive into a new SQLite file",
		Help: `Writes the operations of the archive into a new SQLite file. You can read the new file with "once keys show" and with
queries of your own. The operations in the file are expired, so no service answers a retry from the file. The command
reads only the archive, and writes only to the new file. If a key was used again after the key had expired, the file has
only the last operation with this key.`,
		Make: func() cli.Runner { return new(restore) },
	}
)

type verify struct{ output cli.Form }

func (c *verify) Flags(set *pflag.FlagSet) {
	c.output.Flag(set)
}

func (c *verify) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) < 1 {
		return cli.Usage("the command line does not name the directory of the archive", "once archive verify DIR")
	}
	files, err := operate.OpenArchive(args[0])
	if err != nil {
		return err
	}
	a, err := files.Verify(ctx)
	if err != nil {
		return err
	}
	if c.output != cli.Table {
		err = cli.WriteJSON(m.Stdout, c.output, a)
	} else {
		for _, d := range a.Damaged {
			fmt.Fprintf(m.Stdout, "damaged  %s: %s\n", d.File, d.Error)
		}
		fmt.Fprintf(m.Stdout, "%d segments with %d rows and %d bytes; %d segments damaged.\n", a.Segments, a.Rows, a.Bytes, len(a.Damaged))
	}
	if err == nil && len(a.Damaged) > 0 {
		return cli.ErrSaid
	}
	return err
}

type show struct {
	scope, table string
	payload      bool
	output       cli.Form
}

func (c *show) Flags(set *pflag.FlagSet) {
	set.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key")
	set.StringVar(&c.table, "table", "", "the `TABLE` to search instead of the operations, such as once_receipt")
	set.BoolVar(&c.payload, "payload", false, "with --table: also print bodies and headers")
	c.output.Flag(set)
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	if len(args) < 2 || args[1] == "" {
		return cli.Usage("the KEY is missing", "once archive show DIR KEY")
	}
	files, err := operate.OpenArchive(args[0])
	if err != nil {
		return err
	}
	if c.table != "" {
		return c.rows(ctx, m, files, args[1])
	}
	if c.payload {
		return cli.Usage("--payload needs --table", "once archive show DIR KEY --table once_receipt --payload")
	}
	found, err := files.Find(ctx, c.scope, args[1])
	if err != nil {
		return err
	}
	if c.output != cli.Table {
		if err := cli.WriteList(m.Stdout, c.output, found, found); err != nil {
			return err
		}
	}
	for i, op := range found {
		if c.output != cli.Table {
			break
		}
		if i > 0 {
			fmt.Fprintln(m.Stdout)
		}
		if err := keys.Print(m.Stdout, op, lease.Progress{}); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		if c.output == cli.Table {
			fmt.Fprintf(m.Stdout, "The archive has no operation with the key %q.\n", args[1])
		}
		return cli.ErrNothing
	}
	return nil
}

// rows shows rows of other tables than operations.
func (c *show) rows(ctx context.Context, m *cli.Env, files *operate.Archive, key string) error {
	found, err := files.FindRows(ctx, c.table, c.scope, key)
	if err != nil {
		return err
	}
	for i, r := range found {
		columns := map[string]json.RawMessage{}
		if err := json.Unmarshal(r.Row, &columns); err != nil {
			return fmt.Errorf("the row %q of %s: %w", r.Key, r.Table, err)
		}
		for _, name := range []string{"header", "headers", "body", "payload", "data", "answer"} {
			if !c.payload {
				delete(columns, name)
			}
		}
		if found[i].Row, err = json.Marshal(columns); err != nil {
			return err
		}
		if c.output != cli.Table {
			continue
		}
		if _, err := fmt.Fprintf(m.Stdout, "%s  %s\n", words.Shown(r.Key), found[i].Row); err != nil {
			return err
		}
	}
	if c.output != cli.Table {
		if err := cli.WriteList(m.Stdout, c.output, found, found); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		if c.output == cli.Table {
			fmt.Fprintf(m.Stdout, "The archive has no row with the key %s in the table %s.\n", words.Shown(key), words.Shown(c.table))
		}
		return cli.ErrNothing
	}
	return nil
}

type restore struct{}

func (*restore) Flags(*pflag.FlagSet) {}

func (*restore) Run(ctx context.Context, m *cli.Env, args []string) (err error) {
	if len(args) < 2 {
		return cli.Usage("DIR or FILE is missing", "once archive restore DIR FILE")
	}
	if _, err := operate.OpenArchive(args[0]); err != nil {
		return err
	}
	file, err := os.OpenFile(args[1], os.O_CREATE|os.O_EXCL, 0o600) // an existing file is never overwritten
	if err != nil {
		return fmt.Errorf("%w. Try: name a FILE that does not exist yet", err)
	}
	_ = file.Close()
	defer func() {
		if err != nil {
			_ = os.Remove(args[1])
		}
	}()
	db, err := cli.OpenDatabase(ctx, "sqlite:"+args[1], true)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlstore.Migrate(ctx, db.DB, attemptlog.Migrations, operate.Migrations); err != nil { // once keys reads these tables
		return db.Failed("migrate", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return db.Failed("write", err)
	}
	defer func() { _ = tx.Rollback() }() // after the commit this has no effect
	for e, err := range archive.Records(args[0]) {
		if err != nil {
			return fmt.Errorf("%w. Try: once archive verify %s", err, words.Quoted(args[0]))
		}
		if e.Table != "" {
			continue
		}
		_, err = tx.ExecContext(ctx, restoreRow, e.Scope, e.Key, e.Fence, e.Nonce, e.Fingerprint, e.Result.Status, int(e.Result.Kind),
			head.Encode(&e.Result), e.Result.Body, e.Request, e.RecoveryPoint, e.CallStarted, e.Data, e.Since.UnixMilli(), e.At.UnixMilli(), e.Name)
		if err != nil {
			return db.Failed("write", err)
		}
	}
	var n int
	if err := tx.QueryRowContext(ctx, "select count(*) from once_operation").Scan(&n); err != nil {
		return db.Failed("read", err)
	}
	if err := tx.Commit(); err != nil {
		return db.Failed("write", err)
	}
	fmt.Fprintf(m.Stdout, "%s written into %s, with the expiry times from the archive.\nTry: once keys show KEY --db %s\n", words.Counted(n, "operation was", "operations were"), db.Name, db.Paste)
	return nil
}

const restoreRow = `insert into once_operation (scope, key, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, since, expires_at, name)
 values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''))
 on conflict (scope, key) do update set fence = excluded.fence, claim = excluded.claim, fingerprint = excluded.fingerprint, status = excluded.status,
 kind = excluded.kind, head = excluded.head, body = excluded.body, request = excluded.request, point = excluded.point, calling = excluded.calling,
 data = excluded.data, since = excluded.since, expires_at = excluded.expires_at, name = excluded.name where excluded.since > once_operation.since`
