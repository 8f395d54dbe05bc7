package integration

import (
	"context"
	"strings"

	"github.com/oncelib/once"
)

// schema of the business. No constraint keeps an effect from being doubled: that
// is the key's work. In ledger every execution appends its attempt, so that one
// row shows what happened, how often and in which order.
const schema = `
create table charge (key text not null, attempt text not null);
create table entry (key text not null, attempt text not null);
create table ledger (key text primary key, attempts text not null);
create table receipt (key text not null, paper text not null);
create index charge_key on charge (key);
create index entry_key on entry (key);`

const (
	insertCharge = `insert into charge (key, attempt) values ($1, $2)`
	insertEntry  = `insert into entry (key, attempt) values ($1, $2)`
	appendLedger = `insert into ledger (key, attempts) values ($1, $2)
 on conflict (key) do update set attempts = ledger.attempts || ',' || excluded.attempts`
	insertReceipt = `insert into receipt (key, paper) values ($1, $2)`
)

// answer is the operation's value. It names the attempt that was executed, so that
// two answers are equal only if they tell of one execution.
type answer struct {
	Key, Attempt string
	Paper        string `json:"paper,omitempty"` // of those who ask for some
	Wire         string `json:"-"`               // all of it, as it came over HTTP
}

// work is one attempt at the operation of a key.
type work struct {
	key, attempt string
	paper        string                                       // to be written in a statement more, and answered
	fails        bool                                         // with a final failure, after its writes
	hook         func(string)                                 // sees the places that it passes
	before       func()                                       // runs when the writes are done, before the handler returns
	spoil        func() error                                 // then: what the handler fails with, nil for nothing
	also         func(ctx context.Context, exec execer) error // runs after the writes
	swallows     bool                                         // errors of statements
	saw          func(error)                                  // is told of them
}

// execer runs one statement.
type execer func(ctx context.Context, query string, args ...any) error

// do is the handler.
func (w work) do(ctx context.Context, exec execer) (answer, error) {
	exec = w.watched(exec)
	w.at("handler: start")
	for _, query := range []string{insertCharge, insertEntry, appendLedger} {
		if err := exec(ctx, query, w.key, w.attempt); err != nil {
			return answer{}, err
		}
		w.at("handler: after a statement")
	}
	if w.also != nil {
		if err := w.also(ctx, exec); err != nil {
			return answer{}, err
		}
	}
	if w.paper != "" {
		if err := exec(ctx, insertReceipt, w.key, w.paper); err != nil {
			return answer{}, err
		}
		w.at("handler: after the receipt")
	}
	if w.before != nil {
		w.before()
	}
	if w.spoil != nil {
		if err := w.spoil(); err != nil {
			return answer{}, err
		}
	}
	if w.fails {
		return answer{}, &once.Failure{Code: "declined", Message: w.attempt}
	}
	return answer{Key: w.key, Attempt: w.attempt, Paper: w.paper}, nil
}

// watched tells of errors, and drops them for a handler that swallows them.
func (w work) watched(exec execer) execer {
	return func(ctx context.Context, query string, args ...any) error {
		err := exec(ctx, query, args...)
		if err != nil && w.saw != nil {
			w.saw(err)
		}
		if w.swallows {
			err = nil
		}
		return err
	}
}

func (w work) at(place string) {
	if w.hook != nil {
		w.hook(place)
	}
}

// sqlite has its own placeholders.
func sqlitePlaceholders(query string) string { return strings.ReplaceAll(query, "$", "?") }
