package journal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Table is a [Journal] in a table of a database. An intent can be inserted in the same transaction as the business write that makes the request
// necessary. The methods of Table can be called concurrently.
//
//	intents, err := journal.OpenTable(store, journal.Config{}) // a *pgxstore.Store or *sqlstore.Store
//	client := &http.Client{Transport: &retryhttp.Transport{Journal: intents}}
//
//	in := journal.Intent{Key: "refund:ch_9ab", Method: "POST", URL: url, Body: body}
//	insert, args, err := intents.Insert(in)
//	_, err = tx.ExecContext(ctx, insert, args...) // or a pgx.Tx: tx.Exec(ctx, insert, args...)
//	...
//	err = tx.Commit()
//
// The business write and the intent are committed together or not at all. [Resume] sends committed intents, including each intent whose request
// was never sent. [Migrations] creates the table.
//
// Any number of processes may share the table. If two processes resume the same intent at the same time, the server gets the request twice with the
// same key. The server must apply this request only once.
type Table struct {
	db     sqlplane.Database
	cfg    Config
	insert string
	counts bool // the number of changed rows shows whether insert has stored the intent
}

// OpenTable returns the journal in db. The parameter db is a *pgxstore.Store or *sqlstore.Store that was migrated with [Migrations]. OpenTable
// sends nothing to the database. OpenTable fails if cfg is invalid.
func OpenTable(db sqlplane.Database, cfg Config) (*Table, error) {
	t := &Table{db: db, cfg: cfg, counts: db.Dialect() != sqlplane.MySQL} // on MySQL the number depends on the setting clientFoundRows
	t.insert = t.text("insert into once_intent (" + tableColumns + ") values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) KEEP(calls)")
	if _, err := cfg.Redact(Intent{URL: "http://host/"}); err != nil {
		return nil, err
	}
	return t, nil
}

// text returns a query in the dialect of the database.
func (t *Table) text(query string) string { return dialect.Text(t.db.Dialect(), query) }

const tableColumns = "name, id, KEY, method, url, header, body, since, expires, held, calls"

// Insert returns the query and the arguments of a statement that stores the intent in. Execute the statement in your own transaction. If an intent
// with the same key, method and URL is already open, the statement changes nothing. If in.Since is zero, Insert stores the current time as Since;
// the retention of the key begins at Since. If Resume fails to send the request of an inserted intent, the intent stays open. Only an answer or an
// operator closes an inserted intent.
func (t *Table) Insert(in Intent) (query string, args []any, err error) {
	args, err = t.fields(&in, 1)
	return t.insert, args, err
}

// fields returns the values for tableColumns, and removes the parts of in that a journal does not store.
func (t *Table) fields(in *Intent, calls int) ([]any, error) {
	clean, err := t.cfg.Redact(*in)
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

// nameOf returns a text that is the same for all requests of one intent, which have the same key, method and URL.
func nameOf(in Intent) string {
	h := sha256.New()
	for _, part := range []string{in.Key, in.Method, in.URL} {
		// The lengths ensure that different parts never have the same text.
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// End implements [Journal]. When End returns without an error, its change is committed.
func (t *Table) End(ctx context.Context, in Intent, o Proof) (err error) {
	switch o {
	case ProofAnswered:
		_, err = t.exec(ctx, "delete from once_intent where id = ?", in.ID)
	case ProofUntouched: // only if no other process has begun the intent
		_, err = t.exec(ctx, "delete from once_intent where id = ? and calls = 1", in.ID)
	case ProofExpired:
		_, err = t.exec(ctx, "update once_intent set held = ? where id = ? and held = ''", "its key has expired", in.ID)
	default:
		if sooner := millis(in.Expires); sooner > 0 {
			_, err = t.exec(ctx, "update once_intent set expires = ? where id = ? and (expires = 0 or expires > ?)", sooner, in.ID, sooner)
		}
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// List implements [Journal]. List never sets Intent.Active, because a table does not know the running requests of other
// processes.
func (t *Table) List(ctx context.Context) ([]Intent, error) {
	list, _, err := t.read(ctx, " order by since, id")
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return list, nil
}

// Resolve closes the intent with this ID, after an operator has found out its outcome.
func (t *Table) Resolve(ctx context.Context, id string) error {
	closed, err := t.exec(ctx, "delete from once_intent where id = ?", id)
	if err == nil && !closed {
		err = errors.New("the table has no open intent with the ID " + id)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

var _ Journal = (*Table)(nil)

// exec runs a statement, and reports whether it has changed a row.
func (t *Table) exec(ctx context.Context, query string, args ...any) (bool, error) {
	n, err := t.db.Pool().Exec(ctx, store.Statement{SQL: t.text(query), Args: args})
	return n > 0, err
}

// read returns intents, and how many calls have begun each of them.
func (t *Table) read(ctx context.Context, where string, args ...any) (list []Intent, calls []int64, err error) {
	query := t.text("select id, KEY, method, url, header, body, since, expires, held, calls from once_intent" + where)
	err = t.db.Pool().Query(ctx, store.Statement{SQL: query, Args: args}, func(row sqlplane.Row) error {
		var in Intent
		var header []byte
		var since, expires, n int64
		if err := row.Scan(&in.ID, &in.Key, &in.Method, &in.URL, &header, &in.Body, &since, &expires, &in.Held, &n); err != nil {
			return err
		}
		if err := json.Unmarshal(header, &in.Header); err != nil {
			return err
		}
		in.Since = time.UnixMilli(since).UTC()
		if expires > 0 {
			in.Expires = time.UnixMilli(expires).UTC()
		}
		list, calls = append(list, in), append(calls, n)
		return nil
	})
	return list, calls, err
}
