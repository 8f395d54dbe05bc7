package sqlitegroup

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"

	"github.com/oncelib/once/internal/sql/sqlguard"
)

// memberTx is the transaction of a member. The first member begins the group with BEGIN, and its ROLLBACK ends the group. Every
// other member is a savepoint. The COMMIT of a member leaves the group open, after a check that no deferred constraint is
// violated.
type memberTx struct {
	first bool

	// bound ends all statements of the member. The contexts of the statements themselves cancel only reads: if a write is
	// cancelled, SQLite rolls back the whole transaction, and with it the whole group.
	bound context.Context //nolint:containedctx // the only context of the member

	over   chan struct{} // closed when COMMIT or ROLLBACK has ended
	gone   atomic.Bool   // its rollback has rolled back the whole group, so the transaction has ended
	pragma atomic.Bool   // the member has run a PRAGMA; some stay in force until COMMIT
}

var _ sqlguard.GroupTx = (*memberTx)(nil)

const (
	setMember     = "SAVEPOINT " + sqlguard.GroupSavepoint
	undoMember    = "ROLLBACK TO " + sqlguard.GroupSavepoint
	releaseMember = "RELEASE " + sqlguard.GroupSavepoint
)

func newMemberTx(first bool, bound context.Context) *memberTx { //nolint:revive // the bound is not the call's context
	return &memberTx{first: first, bound: bound, over: make(chan struct{})}
}

// Begin implements [sqlguard.GroupTx].
func (p *memberTx) Begin(ctx context.Context, s sqlguard.Session) (begun bool, err error) {
	if p.first {
		return false, nil
	}
	return true, s.Run(ctx, setMember)
}

// Context implements [sqlguard.GroupTx].
func (p *memberTx) Context(ctx context.Context, query string) context.Context {
	reads, pragma := sqlguard.SQLiteEffects(query)
	if pragma {
		p.pragma.Store(true)
	}
	if !reads || ctx.Done() == nil {
		ctx = boundedContext{p.bound, ctx}
	} else {
		both, cancel := context.WithCancel(ctx)
		context.AfterFunc(p.bound, cancel)
		ctx = both
	}
	if p.pragma.Load() { // a statement that was prepared before may not obey the pragma
		return ctx
	}
	return sqlguard.KeepPrepared(ctx)
}

// Commit implements [sqlguard.GroupTx].
func (p *memberTx) Commit(s sqlguard.Session) error {
	switch open, err := violatesDeferred(s); {
	case err != nil:
		return err
	case open:
		return deferredError{}
	case p.first:
		return nil
	}
	return s.Run(context.Background(), releaseMember)
}

// Rollback implements [sqlguard.GroupTx]. A failed statement may have rolled back the whole group before.
func (p *memberTx) Rollback(s sqlguard.Session) (rolledBack bool) {
	if p.first {
		return false
	}
	ctx := context.Background()
	err := s.Run(ctx, undoMember)
	if err == nil {
		err = s.Run(ctx, releaseMember)
	}
	if err != nil {
		p.gone.Store(true)
		s.Abandon(ctx)
	}
	return true
}

// Ended implements [sqlguard.GroupTx].
func (p *memberTx) Ended() { close(p.over) }

// boundedContext has the end of one context and the values of another.
type boundedContext struct {
	context.Context                 //nolint:containedctx // half of a context
	values          context.Context //nolint:containedctx // half of a context
}

func (b boundedContext) Value(key any) any { return b.values.Value(key) }

// deferredError is the error that COMMIT would return.
type deferredError struct{}

func (deferredError) Error() string {
	return "FOREIGN KEY constraint failed: the transaction violates a deferred foreign key"
}

// Code is SQLITE_CONSTRAINT_FOREIGNKEY.
func (deferredError) Code() int { return 787 }

// commitGroup commits the open group of a connection from sql.Conn.Raw. The error is a *[sqlguard.CommitError], and then the
// transaction has ended.
func commitGroup(driverConn any) error {
	s, ok := sqlguard.SessionOf(driverConn, sqlguard.SQLite)
	if !ok {
		return errUnguarded
	}
	return s.Commit(context.Background())
}

// checkDriver returns an error if the driver of a connection cannot report a violated deferred constraint.
func checkDriver(driverConn any) error {
	s, ok := sqlguard.SessionOf(driverConn, sqlguard.SQLite)
	if !ok {
		return errUnguarded
	}
	_, err := violatesDeferred(s)
	return err
}

var (
	errUnguarded = errors.New("the connection is not a connection to SQLite that sqlstore.Open has opened")
	errNoStatus  = errors.New("the SQLite driver cannot report violated deferred foreign keys, so one operation could make all operations of its group commit fail. Try: modernc.org/sqlite v1.53.0 or newer, whose connections have a method Status")
)

// violatesDeferred asks sqlite3_db_status whether COMMIT would find a violated constraint. It uses reflection, because the
// parameter has a type of the driver.
func violatesDeferred(s sqlguard.Session) (bool, error) {
	status := reflect.ValueOf(s.Driver()).MethodByName("Status")
	if !status.IsValid() {
		return false, errNoStatus
	}
	t := status.Type()
	if t.NumIn() != 2 || t.In(0).Kind() != reflect.Int32 || t.In(1).Kind() != reflect.Bool ||
		t.NumOut() != 3 || t.Out(0).Kind() != reflect.Int || t.Out(2) != reflect.TypeFor[error]() {
		return false, errNoStatus
	}
	const deferredForeignKeys = 10 // SQLITE_DBSTATUS_DEFERRED_FKS
	out := status.Call([]reflect.Value{reflect.ValueOf(deferredForeignKeys).Convert(t.In(0)), reflect.ValueOf(false)})
	if err, _ := out[2].Interface().(error); err != nil {
		return false, err
	}
	return out[0].Int() != 0, nil
}
