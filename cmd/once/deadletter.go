package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// lettersDB is a database with its dead letters.
type lettersDB struct {
	*database
	*deadletter.Letters

	store store.Database
}

// openLetters opens the dead letters of a database that is there and has been migrated.
func (m *Main) openLetters(ctx context.Context, dsn string, cfg deadletter.Config) (*lettersDB, error) {
	db, err := openDatabase(ctx, dsn, false)
	if err != nil {
		return nil, err
	}
	open := m.openStore
	if open == nil {
		open = func(ctx context.Context, db *database) (store.Database, error) { return sqlstore.New(ctx, db.DB) }
	}
	s, err := open(ctx, db)
	if err != nil {
		return nil, errors.Join(db.failed("read", err), db.Close())
	}
	return &lettersDB{db, deadletter.New(s, cfg), s}, nil
}

// clock returns the time by the clock of the database.
func clock(ctx context.Context, s store.Database) (now time.Time, err error) {
	query := store.Statement{SQL: dialect.Text(s.Dialect(), "select NOW")}
	err = s.Pool().Query(ctx, query, func(row store.Row) error { return row.Scan((*dialect.Time)(&now)) })
	return now, err
}

// refused says in the words of the command why nothing was done, if err says so.
func (db *lettersDB) refused(doing string, err error) error {
	var e *store.Error
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return fmt.Errorf("%s has no such letter. Try: once deadletter list --letters --db %s", db.name, db.paste)
	case errors.Is(err, deadletter.ErrNoRun):
		return fmt.Errorf("%s has no such redrive. Try: once deadletter list --db %s", db.name, db.paste)
	case isMissingTable(ownError(err)):
		return fmt.Errorf("%s has no tables for dead letters: %w. Try: once migrate up --only admin,deadletter --db %s", db.name, ownError(err), db.paste)
	case !errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // an argument that is not accepted
		what, try := advice(err.Error())
		return &usageError{strings.TrimPrefix(what, "deadletter: "), try}
	}
	if !errors.As(err, &e) { // it says how to go on
		return err
	}
	return db.failed(doing, err)
}

// notDead says that there is nothing to do with one letter.
func (db *lettersDB) notDead(uid string) error {
	return fmt.Errorf("there is no letter %s that waits for a person. Try: once deadletter show %s --db %s", shown(uid), quoted(uid), db.paste)
}

// letterFilter is the flags that choose letters.
type letterFilter struct {
	deadletter.Filter

	since, before string
}

func (f *letterFilter) flags(fs *flag.FlagSet) {
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
	if now, err = clock(ctx, db.store); err != nil {
		return now, db.failed("read", err)
	}
	if f.Since, err = instant("--since", f.since, now); err != nil {
		return now, err
	}
	f.Before, err = instant("--before", f.before, now)
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
			flags.WriteString(" --" + c.name + " " + quoted(c.value))
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
		State: string(l.State), Class: l.Class, Error: l.Error, Cause: l.Cause, Attempts: l.Attempts, CreatedAt: moment(l.CreatedAt), FirstFailedAt: l.FirstFailedAt.UTC(), DeadAt: l.DeadAt.UTC(),
		Redrive: l.Redrive, RedriveAt: moment(l.RedriveAt), ResolvedAt: moment(l.ResolvedAt), Reason: l.Reason, Trace: l.Trace, Encrypted: l.Encrypted,
	}
}
