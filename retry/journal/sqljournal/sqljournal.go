// Package sqljournal keeps the intents of package journal in a database, so that an intent
// can commit with the business write that makes it necessary.
//
//	intents, err := sqljournal.New(db, sqlstore.PostgreSQL, journal.Config{})
//	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
//
//	in := journal.Intent{Key: "refund:ch_9ab", Method: "POST", URL: url, Body: body}
//	insert, args, err := intents.Insert(in)
//	_, err = tx.ExecContext(ctx, insert, args...) // or a pgx.Tx: tx.Exec(ctx, insert, args...)
//	...
//	err = tx.Commit()
//
// Either both are there or none, and [journal.Resume] sends what is: at once, for it need
// not have been sent before. Its table is that of migration 004 of the stores.
//
// Any number of processes may share the table. Two that resume the same intent send it
// twice with the same key; that is for the server to see to.
package sqljournal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/migration"
)

// Journal is a [journal.Journal] in a database. Its methods can be called concurrently.
type Journal struct {
	db     *sql.DB
	cfg    journal.Config
	insert string
	counts bool                      // it says truly whether a row was inserted
	text   func(query string) string // in the words of the database
}

// New returns the journal in db, which has been migrated.
func New(db *sql.DB, d migration.Dialect, cfg journal.Config) (*Journal, error) {
	j := &Journal{db: db, cfg: cfg, counts: d != migration.MySQL} // there it depends on the connection
	const insert = "insert into once_intent (" + columns + ") values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	switch d {
	case migration.PostgreSQL:
		j.text = numbered
		j.insert = numbered(insert) + " on conflict do nothing"
	case migration.SQLite:
		j.text = func(query string) string { return query }
		j.insert = insert + " on conflict do nothing"
	case migration.MySQL:
		j.text = func(query string) string { return strings.ReplaceAll(query, " key,", " `key`,") }
		j.insert = j.text(insert) + " on duplicate key update calls = calls"
	default:
		return nil, fmt.Errorf("sqljournal: there is no dialect %q. Try: migration.PostgreSQL, SQLite or MySQL", d)
	}
	if _, err := cfg.Keep(journal.Intent{URL: "http://host/"}); err != nil {
		return nil, err
	}
	return j, nil
}

const columns = "name, id, key, method, url, header, body, since, expires, held, calls"

// numbered is a query with $1, $2, ... for its question marks.
func numbered(query string) string {
	var b strings.Builder
	for i, piece := range strings.Split(query, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(piece)
	}
	return b.String()
}

// Insert returns a statement that plans an intent, and its arguments, for a transaction of
// the caller. If one with its key, method and URL is open already, it changes nothing.
// Since is now unless it is set: the retention is counted from then on. A plan is closed
// by an answer only: that it could not be sent does not undo it.
func (j *Journal) Insert(in journal.Intent) (query string, args []any, err error) {
	args, err = j.fields(&in, 1)
	return j.insert, args, err
}

// fields are the values of columns. in is cleaned of what is not kept.
func (j *Journal) fields(in *journal.Intent, calls int) ([]any, error) {
	clean, err := j.cfg.Keep(*in)
	if err != nil {
		return nil, err
	}
	header, err := json.Marshal(clean.Header)
	if err != nil {
		return nil, err
	}
	clean.ID = rand.Text()
	*in = clean
	return []any{
		nameOf(clean), clean.ID, clean.Key, clean.Method, clean.URL, string(header), append([]byte{}, clean.Body...),
		clean.Since.UnixMilli(), millis(clean.Expires), "", calls,
	}, nil
}

// nameOf is what two requests for one intent have in common.
func nameOf(in journal.Intent) string {
	h := sha256.New()
	for _, part := range []string{in.Key, in.Method, in.URL} {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// End implements [journal.Journal].
func (j *Journal) End(ctx context.Context, in journal.Intent, o journal.Outcome) (err error) {
	switch o {
	case journal.Answered:
		_, err = j.exec(ctx, j.text("delete from once_intent where id = ?"), in.ID)
	case journal.Untouched: // and nobody else has begun or planned it
		_, err = j.exec(ctx, j.text("delete from once_intent where id = ? and calls = 1"), in.ID)
	case journal.Expired:
		_, err = j.exec(ctx, j.text("update once_intent set held = ? where id = ? and held = ''"), "its key has expired", in.ID)
	default:
		if sooner := millis(in.Expires); sooner > 0 {
			_, err = j.exec(ctx, j.text("update once_intent set expires = ? where id = ? and (expires = 0 or expires > ?)"), sooner, in.ID, sooner)
		}
	}
	if err != nil {
		return fmt.Errorf("sqljournal: %w", err)
	}
	return nil
}

// List implements [journal.Journal]. Nothing in it is Active: that is known to the
// processes only.
func (j *Journal) List(ctx context.Context) ([]journal.Intent, error) {
	list, _, err := j.read(ctx, " order by since, id")
	if err != nil {
		return nil, fmt.Errorf("sqljournal: %w", err)
	}
	return list, nil
}

// Resolve closes an intent about which a person knows what became of it.
func (j *Journal) Resolve(ctx context.Context, id string) error {
	closed, err := j.exec(ctx, j.text("delete from once_intent where id = ?"), id)
	if err == nil && !closed {
		err = errors.New("no intent " + id + " is open")
	}
	if err != nil {
		return fmt.Errorf("sqljournal: %w", err)
	}
	return nil
}

var _ journal.Journal = (*Journal)(nil)
