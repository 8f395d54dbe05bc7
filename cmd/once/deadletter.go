package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// lettersDB is a database with its dead letters.
type lettersDB struct{ *cli.DB }

// openLetters opens the dead letters of a database that is there and has been migrated.
func openLetters(ctx context.Context, m *cli.Env, dsn string, cfg operate.Config) (*lettersDB, error) {
	db, err := m.Open(ctx, dsn, cfg)
	if err != nil {
		return nil, err
	}
	return &lettersDB{db}, nil
}

// refused says in the words of the command why nothing was done, if err says so.
func (db *lettersDB) refused(doing string, err error) error {
	var e *store.Error
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return cli.Nothing(fmt.Errorf("%s has no such letter. Try: once deadletter list --letters --db %s", db.Name, db.Paste))
	case errors.Is(err, deadletter.ErrNoRun):
		return cli.Nothing(fmt.Errorf("%s has no such redrive. Try: once deadletter list --db %s", db.Name, db.Paste))
	case cli.IsMissingTable(cli.OwnError(err)):
		return fmt.Errorf("%s has no tables for dead letters: %w. Try: once migrate up --only admin,deadletter --db %s", db.Name, cli.OwnError(err), db.Paste)
	case !errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // an argument that is not accepted
		what, try := cli.Advice(err.Error())
		return cli.Usage(strings.TrimPrefix(what, "deadletter: "), try)
	}
	if !errors.As(err, &e) { // it says how to go on
		return err
	}
	return db.Failed(doing, err)
}

// notDead says that there is nothing to do with one letter.
func (db *lettersDB) notDead(uid string) error {
	return cli.Nothing(fmt.Errorf("there is no letter %s that waits for a person. Try: once deadletter show %s --db %s", cli.Shown(uid), cli.Quoted(uid), db.Paste))
}

// letterFilter is the flags that choose letters.
type letterFilter struct {
	operate.LetterFilter

	since, before string
}

func (f *letterFilter) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.Origin, "origin", "", "only of this `ORIGIN`: inbox or outbox")
	fs.StringVar(&f.Consumer, "consumer", "", "only of the inbox of this `CONSUMER`")
	fs.StringVar(&f.Source, "source", "", "only messages of this `SOURCE`")
	fs.StringVar(&f.EventID, "event", "", "only the message with this `ID`")
	fs.StringVar(&f.Topic, "topic", "", "only of this `TOPIC`")
	fs.StringVar(&f.Key, "key", "", "only of this `KEY`")
	fs.StringVar(&f.Type, "type", "", "only messages of this `TYPE`")
	fs.StringVar(&f.Class, "class", "", "only of this `CLASS`, such as permanent or exhausted")
	fs.StringVar(&f.Cause, "cause", "", "only of this `CAUSE`, as the list has it")
	fs.StringVar(&f.since, "since", "", "only those that died at this `TIME` or later, or so long ago at most")
	fs.StringVar(&f.before, "before", "", "only those that died before this `TIME`, or longer ago")
}

// resolve reads --since and --before. It returns the time by the clock of the database.
func (f *letterFilter) resolve(ctx context.Context, db *lettersDB) (now time.Time, err error) {
	if now, err = db.Keys.Now(ctx); err != nil {
		return now, db.Failed("read", err)
	}
	if f.Since, err = cli.Instant("--since", f.since, now); err != nil {
		return now, err
	}
	f.Before, err = cli.Instant("--before", f.before, now)
	return now, err
}

// bound has a preview count what died until now, and returns the flags that have the same letters changed: letters
// that come after the operator has looked are not among them.
func (f *letterFilter) bound(now time.Time) string {
	if f.UID != "" {
		return "--yes"
	}
	if f.Before.IsZero() {
		f.Before = now
	}
	return "--yes --before " + f.Before.UTC().Format(time.RFC3339Nano)
}

// again is the flags as they were given, for a command to be pasted.
func (f *letterFilter) again() string {
	var flags strings.Builder
	for _, c := range [...]struct{ name, value string }{
		{"origin", f.Origin}, {"consumer", f.Consumer}, {"source", f.Source}, {"event", f.EventID}, {"topic", f.Topic}, {"key", f.Key}, {"type", f.Type}, {"class", f.Class}, {"cause", f.Cause},
		{"since", f.since}, {"before", f.before},
	} {
		if c.value != "" {
			flags.WriteString(" --" + c.name + " " + cli.Quoted(c.value))
		}
	}
	return flags.String()
}

// letterEntry is a letter for scripts. Its JSON form is a contract with them.
type letterEntry struct {
	UID           string            `json:"uid"`
	Origin        string            `json:"origin"`
	Consumer      string            `json:"consumer"`
	Source        string            `json:"source"`
	EventID       string            `json:"event_id"`
	Topic         string            `json:"topic"`
	Key           string            `json:"key"`
	Type          string            `json:"type"`
	Seq           int64             `json:"seq"`
	State         string            `json:"state"`
	Class         string            `json:"class"`
	Error         string            `json:"error"`
	Cause         string            `json:"cause"`
	Attempts      int               `json:"attempts"`
	CreatedAt     *time.Time        `json:"created_at,omitempty"`
	FirstFailedAt time.Time         `json:"first_failed_at"`
	DeadAt        time.Time         `json:"dead_at"`
	Redrive       string            `json:"redrive,omitempty"`
	RedriveAt     *time.Time        `json:"redrive_at,omitempty"`
	ResolvedAt    *time.Time        `json:"resolved_at,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	Trace         string            `json:"trace,omitempty"`
	Encrypted     bool              `json:"encrypted"`
	Headers       map[string]string `json:"headers,omitempty"`
	Payload       []byte            `json:"payload,omitempty"` // base64
	Failures      []letterFailure   `json:"failures,omitempty"`
}

// letterFailure is one failed delivery.
type letterFailure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Node    string    `json:"node"`
	Error   string    `json:"error"`
	Trace   string    `json:"trace,omitempty"`
}

func newLetterEntry(l deadletter.Letter) letterEntry {
	return letterEntry{
		UID: l.UID, Origin: l.Origin, Consumer: l.Consumer, Source: l.Source, EventID: l.EventID, Topic: l.Topic, Key: l.Key, Type: l.Type, Seq: l.Seq,
		State: string(l.State), Class: l.Class, Error: l.Error, Cause: l.Cause, Attempts: l.Attempts, CreatedAt: cli.Moment(l.CreatedAt), FirstFailedAt: l.FirstFailedAt.UTC(), DeadAt: l.DeadAt.UTC(),
		Redrive: l.Redrive, RedriveAt: cli.Moment(l.RedriveAt), ResolvedAt: cli.Moment(l.ResolvedAt), Reason: l.Reason, Trace: l.Trace, Encrypted: l.Encrypted,
	}
}
