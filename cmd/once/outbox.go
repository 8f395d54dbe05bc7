package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// outboxDB is a database with its outbox.
type outboxDB struct{ *cli.DB }

// openOutbox opens the outbox of a database that is there and has been migrated.
func openOutbox(ctx context.Context, m *cli.Env, dsn string, cfg operate.Config) (*outboxDB, error) {
	db, err := m.Open(ctx, dsn, cfg)
	if err != nil {
		return nil, err
	}
	return &outboxDB{db}, nil
}

// refused says in the words of the command why nothing was done, if err says so.
func (db *outboxDB) refused(doing string, err error) error {
	return refusedByOutbox(db.Database, doing, err)
}

func refusedByOutbox(db *cli.Database, doing string, err error) error {
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
	if command == "resume" {
		line += " --reason WHY"
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
