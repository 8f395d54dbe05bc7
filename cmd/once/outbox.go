package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// box is what the command needs of an outbox, on any store.
type box interface {
	gauge.Source

	List(ctx context.Context, f outbox.Filter) (list []outbox.Entry, next int64, err error)
	Show(ctx context.Context, id string) (outbox.Entry, error)
	Pause(ctx context.Context, topic, key, reason string) error
	Resume(ctx context.Context, topic, key string) (outbox.Resumed, error)
	Skip(ctx context.Context, id, reason string) error
	Forget(ctx context.Context, topic, key, reason string) (outbox.Forgotten, error)
	Paused(ctx context.Context) ([]outbox.Pause, error)
	Backlog(ctx context.Context) (outbox.Backlog, error)
	Relay(p outbox.Publisher, cfg outbox.RelayConfig) *outbox.Relay
}

// boxOn returns the outbox of s. who is for the audit of what is changed.
func boxOn(s store.Database, cfg outbox.Config, who string) (box, error) {
	switch s := s.(type) {
	case store.SQL[*sql.Tx]:
		return outbox.New(s, cfg).By(who), nil
	case store.SQL[pgx.Tx]:
		return outbox.New(s, cfg).By(who), nil
	}
	return nil, fmt.Errorf("%T has no transactions for an outbox", s)
}

// outboxDB is a database with its outbox.
type outboxDB struct {
	*cli.Database
	box
}

// openOutbox opens the outbox of a database that is there and has been migrated, to read it.
func openOutbox(ctx context.Context, m *cli.Env, dsn string, cfg outbox.Config) (*outboxDB, error) {
	return openOutboxBy(ctx, m, dsn, cfg, "")
}

// openOutboxBy opens an outbox to change it. It is audited who has done so.
func openOutboxBy(ctx context.Context, m *cli.Env, dsn string, cfg outbox.Config, who string) (*outboxDB, error) {
	db, s, err := m.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	b, err := boxOn(s, cfg, who)
	if err != nil {
		return nil, errors.Join(db.Failed("read", err), db.Close())
	}
	return &outboxDB{db, b}, nil
}

// refused says in the words of the command why nothing was done, if err says so.
func (db *outboxDB) refused(doing string, err error) error {
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		return cli.Nothing(fmt.Errorf("the outbox of %s has no such message: its transaction has not committed, or it is delivered. Try: once outbox list --db %s", db.Name, db.Paste))
	case cli.IsMissingTable(cli.OwnError(err)) && strings.Contains(cli.OwnError(err).Error(), "once_audit"):
		return fmt.Errorf("%s has no audit: %w. Try: once migrate up --only admin --db %s", db.Name, cli.OwnError(err), db.Paste)
	case cli.IsMissingTable(cli.OwnError(err)):
		return fmt.Errorf("%s has no outbox: %w. Try: once migrate up --only outbox --db %s", db.Name, cli.OwnError(err), db.Paste)
	}
	var e *store.Error
	if !errors.As(err, &e) { // an argument that the outbox does not accept, and it says why
		return cli.Usage(strings.TrimPrefix(err.Error(), "outbox: "), "once outbox list --help")
	}
	return db.Failed(doing, err)
}

// about is a command line for one topic or key of the outbox.
func (db *outboxDB) about(command, topic, key string) string {
	line := "once outbox " + command + " --topic " + cli.Quoted(topic)
	if key != "" {
		line += " --key " + cli.Quoted(key)
	}
	return line + " --db " + db.Paste
}

// keyFile is the flag --key-file: the key with which the service encrypts its messages and requests.
type keyFile struct{ path string }

func (f *keyFile) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, "key-file", "", "`FILE` with the key of the Encrypter, in hexadecimal, if the service encrypts what it stores")
}

// encrypter reads the file. It returns nil without the flag.
func (f *keyFile) encrypter() (once.Encrypter, error) {
	if f.path == "" {
		return nil, nil //nolint:nilnil // see above
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w. Try: a file that you may read", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil { // which quotes the key
		return nil, cli.Usage("--key-file: the file is not one line of hexadecimal digits", "a file with the key of once.NewEncrypter in 32, 48 or 64 hexadecimal digits")
	}
	e, err := once.NewEncrypter(key)
	if err != nil {
		return nil, cli.Usage(fmt.Sprintf("--key-file: the key has %d bytes", len(key)), "a file with the key of once.NewEncrypter in 32, 48 or 64 hexadecimal digits")
	}
	return e, nil
}

// outboxEntry is a message for scripts. Its JSON form is a contract with them.
type outboxEntry struct {
	ID           string            `json:"id"`
	Topic        string            `json:"topic"`
	Key          string            `json:"key"`
	Seq          int64             `json:"seq"`
	Type         string            `json:"type"`
	Source       string            `json:"source"`
	State        string            `json:"state"`
	Paused       bool              `json:"paused"`
	Attempts     int               `json:"attempts"`
	NextAt       *time.Time        `json:"next_at,omitempty"`
	FailedAt     *time.Time        `json:"failed_at,omitempty"`
	Error        string            `json:"error,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	SentAt       *time.Time        `json:"sent_at,omitempty"`
	Trace        string            `json:"trace,omitempty"`
	Encrypted    bool              `json:"encrypted"`
	PayloadBytes int64             `json:"payload_bytes"`
	Headers      map[string]string `json:"headers,omitempty"`
	Payload      []byte            `json:"payload,omitempty"` // base64
}

func newOutboxEntry(e outbox.Entry) outboxEntry {
	return outboxEntry{
		ID: e.ID, Topic: e.Topic, Key: e.Key, Seq: e.Seq, Type: e.Type, Source: e.Source,
		State: string(e.State), Paused: e.Paused, Attempts: e.Attempts, NextAt: cli.Moment(e.NextAt), FailedAt: cli.Moment(e.FailedAt), Error: e.Error,
		CreatedAt: e.CreatedAt.UTC(), SentAt: cli.Moment(e.SentAt), Trace: e.Trace, Encrypted: e.Encrypted, PayloadBytes: e.PayloadBytes,
	}
}
