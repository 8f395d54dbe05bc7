package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/recorded"
)

var exportEntry = cli.Entry{
	Quick: true, Name: "keys export", Args: "KEY", Brief: "write the request of an operation to a file",
	Help: `Writes the HTTP request of an operation to a new file that only you can read. To reproduce a problem, you can send
the request in the file to another service with "once keys replay". The service must have stored its requests (with
CaptureRequest of package oncehttp and an Encrypter), and the command needs the encryption key of the service.

The file is JSON, and contains the method, path, headers and exact bytes of the request. The command leaves out
Authorization, Cookie, X-Api-Key and other headers whose names suggest a secret, and the headers that you name
with --redact. The path and the body are not changed: protect the file like the data of the service.

The command records in the audit that you have read the request, if the database user may write to the audit. The
command changes nothing else.`,
	Make: func() cli.Runner { return new(export) },
}

type export struct {
	db, scope, file, who string
	key                  cli.KeyFile
	redact               []string
}

func (c *export) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.scope, "scope", "", "the `SCOPE` of the key")
	c.key.Flags(fs)
	fs.StringVar(&c.file, "file", "", "the new `FILE` to write (default: once-HASH.json, where HASH is the hash of the key)")
	fs.Func("redact", "also leave out the header `NAME`; can be repeated", func(name string) error {
		c.redact = append(c.redact, name)
		return nil
	})
	fs.StringVar(&c.who, "by", cli.Operator(), "the name (`WHO`) of the operator who runs this command; the audit records the name")
}

func (c *export) Run(ctx context.Context, m *cli.Env, args []string) error {
	const try = "once keys export KEY --scope SCOPE --key-file FILE --db URL"
	if len(args) == 0 || args[0] == "" {
		return cli.Usage("the KEY is missing", try)
	}
	encrypter, err := c.key.Encrypter()
	switch {
	case err != nil:
		return err
	case encrypter == nil:
		return cli.Usage("--key-file is missing: requests are stored encrypted", try)
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	op, err := c.find(ctx, db, args[0])
	if err != nil {
		return err
	}
	r, err := c.request(ctx, db, op, encrypter)
	if err != nil {
		return err
	}
	// The name has the hash of the key, because the key itself may be about a customer.
	if c.file == "" {
		c.file = "once-" + keyname.Hashes(op.Key)[0] + ".json"
	}
	// The audit is written before the file: a request that left the database is in the audit, even if the file cannot be written.
	looked(ctx, m, db, c.who, operate.Access{Scope: op.Scope, Key: op.Key, Detail: "its request, exported"})
	if err := writeNew(c.file, r); err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "%s  %s %s, %d bytes\n", c.file, words.Shown(r.Method), words.Shown(r.Path), len(r.Body))
	for _, name := range r.Redacted {
		fmt.Fprintf(m.Stdout, "left out: %s\n", words.Shown(name))
	}
	return nil
}

// find returns the operation to export.
func (c *export) find(ctx context.Context, db *cli.DB, key string) (op operate.Operation, err error) {
	found, err := db.Keys.Find(ctx, key)
	if err != nil {
		return op, db.Failed("read", err)
	}
	if c.scope != "" {
		found = slices.DeleteFunc(found, func(op operate.Operation) bool { return op.Scope != c.scope })
	}
	switch len(found) {
	case 0:
		return op, refusal(operate.ErrNothing)
	case 1:
		return found[0], nil
	}
	return op, cli.Usage(fmt.Sprintf("%d scopes have this key", len(found)), "--scope "+words.Quoted(found[0].Scope))
}

// request returns the captured request of op.
func (c *export) request(ctx context.Context, db *cli.DB, op operate.Operation, encrypter once.Encrypter) (r recorded.Request, err error) {
	rec, err := db.Keys.Record(ctx, op.ID())
	switch {
	case err != nil:
		return r, db.Failed("read", err)
	case len(rec.Request) == 0:
		return r, errors.New("the service has not stored the request of the operation, or an operator has erased the request. Try: set CaptureRequest of package oncehttp and Config.Encrypter of the engine, which store future requests")
	}
	plain, err := encrypter.Decrypt(rec.Request, seal.Label(op.Scope, op.Key))
	if err != nil {
		return r, fmt.Errorf("%w. Try: --key-file with the key that the service had when it stored the request", err)
	}
	if r, err = recorded.FromCapture(plain, c.redact); err != nil {
		return r, fmt.Errorf("%w. Try: once keys show KEY, which prints the kind of the operation", err)
	}
	r.ID, r.ExportedAt = once.NewKey(), time.Now().UTC().Truncate(time.Second)
	r.Operation = recorded.Operation{Scope: op.Scope, Key: op.Key, Fingerprint: op.Fingerprint, State: op.State, Since: op.Since, Status: op.Status, Trace: op.Trace}
	return r, nil
}

// writeNew writes v as JSON to a new file that only its owner can read.
func writeNew(name string, v any) (err error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	// O_EXCL: an existing file is not overwritten, and keeps no wider mode.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w. Try: use --file with another name", err)
	}
	if _, err = f.Write(append(text, '\n')); err != nil {
		// A file that was written in part must not be taken for an export.
		return errors.Join(err, f.Close(), os.Remove(name))
	}
	return f.Close()
}
