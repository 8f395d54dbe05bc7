// Package operate has the methods with which an operator reads and changes the data that this library stores in a database: operations, sagas,
// outbox, inboxes, dead letters and webhooks. Package console and the command "once" use package operate.
//
//	op := operate.New(s, operate.Config{}) // s is the SQL store of the engine
//
//	page, err := op.Keys.List(ctx, operate.KeyFilter{State: "unknown"})
//	...
//	by := operate.By{Who: "ada", Reason: "ticket 4711"}
//	err = op.Keys.Decide(ctx, by, page.Items[0].ID(), lease.Resolution{CallID: id, RunAgain: true})
//	err = op.Outbox.Pause(ctx, by, "refunds", "")
//
// Each method that changes something takes a [By] (who makes the change, and why), and writes the By to the audit table in the commit of the change.
// A method that returns a long list returns one page of the list (type [Page]) for each call. An error of the database has the type [*store.Error].
// The package opens no connections itself: it uses the connections of the store.
package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// By names the person or service that changes or reads data, and the reason. The fields Who and Reason are required, and both are written to the
// audit table.
type By struct{ Who, Reason string }

// check returns an error that names a missing field.
func (by By) check() error {
	switch {
	case by.Who == "":
		return errors.New("operate: By.Who is empty. Try: the name of the person or service that makes the change")
	case strings.TrimSpace(by.Reason) == "":
		return errors.New("operate: By.Reason is empty. Try: a reason, such as the number of a ticket")
	}
	return nil
}

// Window chooses the page of a list that a call returns. The zero value of Window chooses the first page of a list.
type Window struct {
	After string // Page.Next of the previous page; "" for the first page
	Limit int    // the largest number of items; default: DefaultLimit
}

// DefaultLimit is the largest number of items of a page if Window.Limit is 0.
const DefaultLimit = 50

func (w Window) limit() int {
	if w.Limit <= 0 {
		return DefaultLimit
	}
	return w.Limit
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // the Window.After of the next page; "" on the last page
	Cut   bool   `json:"cut,omitempty"`  // true if a limit on the rows to read has ended the page, so that the page may have fewer than Window.Limit items
}

// pageOf returns the page of a list. The list was read with one item more than the page may have. The function next returns the cursor of an item.
func pageOf[T any](list []T, w Window, next func(T) string) Page[T] {
	p := Page[T]{Items: append([]T{}, list...)}
	if n := w.limit(); len(list) > n {
		// The additional item only says that another page follows.
		p.Items, p.Next = list[:n], next(list[n-1])
	}
	return p
}

// Config configures an [Operator].
type Config struct {
	// Encrypter decrypts payloads and headers of messages, and inputs of sagas. Set Encrypter if the service encrypts payloads, headers and inputs.
	// Default: nil.
	Encrypter once.Encrypter

	// Caches are the caches of this process; a *once.Engine is a Cache. [Keys.Forget] removes the answers of forgotten operations from Caches. Caches of
	// other processes may still return a forgotten answer for up to the time [once.Config].CacheFor.
	Caches []Cache
}

// Cache removes the answer of one operation from a cache.
type Cache interface {
	InvalidateCache(ctx context.Context, scope, key string) error
}

// DB is a store with tables and transactions, such as *pgxstore.Store and *sqlstore.Store.
type DB[TX any] interface {
	sqlplane.SQL[TX]
	store.Store[TX]
}

// Operator gives access to all data that this library stores in a database; each field of Operator gives access to one kind of data. The methods of
// an Operator can be called concurrently.
type Operator struct {
	Keys    *Keys
	Outbox  *Outbox
	Inbox   *Inboxes
	Letters *Letters
	Sagas   *Sagas
	Hooks   *Webhooks
}

// New returns the Operator of the store s. Run the migrations of the store before you call New. New sends nothing to the database.
func New[TX any](s DB[TX], cfg Config) *Operator {
	box := outbox.New(s, outbox.Config{Encrypter: cfg.Encrypter})
	consumer := func(name string) (order, error) {
		// Only an ordered inbox has keys that wait.
		c := inbox.Config{Consumer: name, Order: inbox.InOrder}
		if err := checkConsumer(name); err != nil {
			return nil, err
		}
		return inbox.New(once.New(s, once.Config{}), c), nil
	}
	keys := NewKeys(s, cfg.Caches...)
	// With PlainSecrets, an operator without the key of the service can still change endpoints.
	hooks := webhook.New(s, webhook.Config{Encrypter: cfg.Encrypter, PlainSecrets: cfg.Encrypter == nil})
	return &Operator{
		Keys:    keys,
		Sagas:   &Sagas{keys, s, cfg.Encrypter},
		Outbox:  &Outbox{now: keys.Now, box: box, by: func(by By) signedBox { return box.By(by.Who, by.Reason) }},
		Inbox:   &Inboxes{db: s, consumer: consumer},
		Hooks:   &Webhooks{s, func(by By) *webhook.Endpoints { return hooks.By(by.Who, by.Reason).Endpoints() }},
		Letters: &Letters{deadletter.New(s, deadletter.Config{Encrypter: cfg.Encrypter})},
	}
}

// Keys gives access to the operations of a database by their idempotency keys, and to the audit table, in which the acts of operators are stored.
type Keys struct {
	db     sqlplane.Database
	caches []Cache
}

// NewKeys returns the Keys of a database without an [Operator]. Use NewKeys if your program has the store only as an interface.
func NewKeys(db sqlplane.Database, caches ...Cache) *Keys { return &Keys{db, caches} }

// Now returns the time of the database's clock, from which all ages are computed.
func (a *Keys) Now(ctx context.Context) (now time.Time, err error) {
	err = a.db.Pool().Query(ctx, a.statement("select NOW"), func(row sqlplane.Row) error {
		return row.Scan((*dialect.Time)(&now))
	})
	return shown(now), err
}

// statement returns a query in the dialect of the database, with its arguments.
func (a *Keys) statement(query string, args ...any) store.Statement {
	return statement(a.db, query, args...)
}

func statement(db sqlplane.Database, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: args}
}

// collect runs a query, and returns its scanned rows.
func collect[T any](ctx context.Context, r sqlplane.Runner, s store.Statement, scan func(sqlplane.Row) (T, error)) (list []T, err error) {
	err = r.Query(ctx, s, func(row sqlplane.Row) error {
		one, err := scan(row)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// convert converts the items of a list. For an empty list it returns an empty list and not nil, so that JSON has no null.
func convert[A, B any](list []A, to func(A) B) []B {
	made := make([]B, len(list))
	for i, one := range list {
		made[i] = to(one)
	}
	return made
}

// utc returns t in UTC. A zero time stays zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// shown rounds a time down to milliseconds, which all databases store.
func shown(t time.Time) time.Time { return t.Truncate(time.Millisecond) }

// shownOrNil returns nil for a zero time, and the rounded time otherwise.
func shownOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	at := shown(t)
	return &at
}
