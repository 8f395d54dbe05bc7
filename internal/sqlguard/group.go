package sqlguard

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
)

// Part says that a transaction of SQLite is one of a group: transactions that follow
// each other on one connection and are committed together, by [CommitGroup].
//
// The first one begins the group, and its ROLLBACK ends it. Each other one is a
// savepoint. COMMIT of either leaves the group open, after it has made sure that no
// deferred constraint is violated.
type Part struct {
	First bool

	// Bound ends the part's statements when it is over. The contexts with which they
	// are run end only those that read: to interrupt one that writes, SQLite rolls
	// back all of the transaction, which is the whole group.
	Bound context.Context //nolint:containedctx // of the part, which has no other

	over      chan struct{}
	gone, set atomic.Bool
}

// NewPart returns a part that is yet to begin.
func NewPart(first bool, bound context.Context) *Part { //nolint:revive // the bound is not the call's context
	return &Part{First: first, Bound: bound, over: make(chan struct{})}
}

// Over is closed when COMMIT or ROLLBACK of the part has come to its end.
func (p *Part) Over() <-chan struct{} { return p.over }

func (p *Part) end() {
	if p != nil {
		close(p.over)
	}
}

// Gone reports whether the part has taken the group with it: there is no transaction
// any more.
func (p *Part) Gone() bool { return p.gone.Load() }

// Settings reports whether the part has run a PRAGMA. Some are in force until COMMIT.
func (p *Part) Settings() bool { return p.set.Load() }

type partKey struct{}

// PartOf is Context for a transaction that is a part of a group.
func (t *Txn) PartOf(ctx context.Context, p *Part) context.Context {
	return context.WithValue(t.Context(ctx), partKey{}, p)
}

func partOf(ctx context.Context) *Part {
	p, _ := ctx.Value(partKey{}).(*Part)
	return p
}

const (
	partName    = "once_part"
	setPart     = "SAVEPOINT " + partName
	undoPart    = "ROLLBACK TO " + partName
	releasePart = "RELEASE " + partName
)

// close is COMMIT of a part.
func (tx *transaction) close() error {
	switch open, err := tx.conn.unresolved(); {
	case err != nil:
		return err
	case open:
		return deferredError{}
	case tx.part.First:
		return nil
	}
	return tx.conn.run(Own(context.Background()), releasePart)
}

// undo is ROLLBACK of a part that is not the first. A failed statement may have rolled
// back the whole group before.
func (tx *transaction) undo() {
	c, ctx := tx.conn, Own(context.Background())
	err := c.run(ctx, undoPart)
	if err == nil {
		err = c.run(ctx, releasePart)
	}
	if err != nil {
		tx.part.gone.Store(true)
		c.abandon(ctx)
	}
}

// deferredError is what COMMIT would say.
type deferredError struct{}

func (deferredError) Error() string { return "FOREIGN KEY constraint failed: a deferred one" }

// Code is SQLITE_CONSTRAINT_FOREIGNKEY.
func (deferredError) Code() int { return 787 }

var errPart = errors.New("refused, because the savepoint of that name is once's own. Try: another name")

// admit is Txn.admit for the open transaction.
func (c *conn) admit(t *Txn, cmd command, query string) error {
	if c.tx != nil && c.tx.part != nil {
		if cmd.name == partName {
			return t.refuse(query, errPart)
		}
	}
	if err := t.admit(cmd, query); err != nil {
		return err
	}
	c.lend(t, query)
	return nil
}

// within returns the context for a statement of the open transaction.
func (c *conn) within(ctx context.Context, query string) context.Context {
	if c.tx == nil || c.tx.part == nil || owns(ctx) {
		return ctx
	}
	bound := c.tx.part.Bound
	reads, sets := effects(query)
	if sets {
		c.tx.part.set.Store(true)
	}
	if !reads || ctx.Done() == nil {
		return bounded{bound, ctx}
	}
	both, cancel := context.WithCancel(ctx)
	context.AfterFunc(bound, cancel)
	return both
}

// effects reports whether a text of SQLite's does nothing but read, and whether it
// contains a PRAGMA.
func effects(text string) (reads, sets bool) {
	p := parser{lexer{text: text, dialect: SQLite}}
	reads = true
	for more := true; more; {
		first := p.inside()
		switch {
		case first.is("PRAGMA"):
			reads, sets = false, true
		case first.is("WITH"):
			reads = reads && p.reads()
		case !first.ends() && !first.is("SELECT") && !first.is("VALUES") && !first.is("EXPLAIN"):
			reads = false
		}
		more = p.rest(first.is("CREATE"))
	}
	return reads, sets
}

// reads reports whether no word in the rest of the statement writes.
func (p *parser) reads() bool {
	for t := p.inside(); !t.ends(); t = p.inside() {
		if t.is("INSERT") || t.is("UPDATE") || t.is("DELETE") || t.is("REPLACE") {
			return false
		}
	}
	return true
}

// bounded ends with one context and has the values of another.
type bounded struct {
	context.Context                 //nolint:containedctx // half of a context
	values          context.Context //nolint:containedctx // half of a context
}

func (b bounded) Value(key any) any { return b.values.Value(key) }

// CommitGroup commits the group that is open on a connection, as sql.Conn.Raw hands it
// out. The error is a *[CommitError], and there is no transaction any more.
func CommitGroup(driverConn any) error {
	c, ok := find(driverConn)
	if !ok {
		return errNoGroup
	}
	ctx := Own(context.Background())
	err := c.run(ctx, "COMMIT")
	if err == nil {
		return nil
	}
	failed := newCommitError(c.dialect, err)
	c.abandon(ctx)
	if failed.InDoubt {
		c.broken = true // nobody knows what state it is in
	}
	return failed
}

// CanGroup returns an error if the driver below a connection cannot tell whether a
// deferred constraint is violated.
func CanGroup(driverConn any) error {
	c, ok := find(driverConn)
	if !ok || c.dialect != SQLite {
		return errNoGroup
	}
	_, err := c.unresolved()
	return err
}

var (
	errNoGroup  = errors.New("not a guarded connection to SQLite")
	errNoStatus = errors.New("the driver does not tell whether a deferred foreign key is violated, so that one caller's would fail others. Try: modernc.org/sqlite v1.53.0 or newer, whose connections have a method Status")
)

// statusDeferred is SQLITE_DBSTATUS_DEFERRED_FKS.
const statusDeferred = 10

// unresolved asks sqlite3_db_status whether COMMIT would find a violated constraint.
// The type of the driver's parameter is its own.
func (c *conn) unresolved() (bool, error) {
	status := reflect.ValueOf(c.base).MethodByName("Status")
	if !status.IsValid() {
		return false, errNoStatus
	}
	t := status.Type()
	if t.NumIn() != 2 || t.In(0).Kind() != reflect.Int32 || t.In(1).Kind() != reflect.Bool ||
		t.NumOut() != 3 || t.Out(0).Kind() != reflect.Int || t.Out(2) != reflect.TypeFor[error]() {
		return false, errNoStatus
	}
	out := status.Call([]reflect.Value{reflect.ValueOf(statusDeferred).Convert(t.In(0)), reflect.ValueOf(false)})
	if err, _ := out[2].Interface().(error); err != nil {
		return false, err
	}
	return out[0].Int() != 0, nil
}
