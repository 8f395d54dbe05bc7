package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// sqliteNow is the clock of the database in milliseconds.
const sqliteNow = dialect.SQLiteNow

const sqliteColumns = `state, fence, claim, fingerprint, status, kind, head, body, request, coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), calling, data,
 coalesce(lease_until <= ` + sqliteNow + `, 0), since, coalesce(state = 2 and expires_at <= ` + sqliteNow + `, 0)`

// sqliteProtocol is the error of a lock of the write-ahead log that was not released. SQLite has tried to begin a read for
// ten seconds, and would try as long again.
const sqliteProtocol = 15

const (
	// Even if no row exists, the time of a read grows with its columns, so this statement has only one.
	sqliteThere = `select 1 from once_operation where scope = ?1 and key = ?2`

	sqliteRead = `select ` + sqliteColumns + ` from once_operation where scope = ?1 and key = ?2`

	// These parts are followed by the arguments of the expectation: the fence, whether the lease must be over, the nonce.
	sqliteExpect = ` where scope = ?1 and key = ?2 and state <> 2 and fence = `
	sqliteLease  = ` and (not `
	sqliteOver   = ` or (state = 1 and lease_until <= ` + sqliteNow + `))`
	sqliteNonce  = ` and claim = coalesce(`

	sqliteIsHeld = ` where scope = ?1 and key = ?2 and state = 1 and fence = ?3 and claim = ?4`
	sqliteHeld   = `select 1 from once_operation` + sqliteIsHeld
	sqliteRenew  = `update once_operation set lease_until = ` + sqliteNow + ` + ?5` + sqliteIsHeld

	// "indexed by" keeps the planner from reading the finished records, whatever its statistics say. The limit sqliteBefore
	// follows if the listing has one, and then sqliteInOrder.
	sqliteUnfinished = `select scope, key, listed, n, state, fence, claim, fingerprint, 0, 0, null, null, null, trace, name, point, calling, null,
 coalesce(lease_until <= ` + sqliteNow + `, 0), since, 0 from (select *, row_number() over (order by scope, key) as n,
 coalesce((not ?4 or state in (3, 4) or lease_until <= ` + sqliteNow + `) and (?5 = '' or name = ?5) and (?6 = 0 or state = ?6), 0) as listed
 from (select scope, key, state, fence, claim, fingerprint, coalesce(trace, '') as trace, coalesce(name, '') as name, coalesce(point, '') as point, calling, lease_until, since
 from once_operation indexed by once_operation_unfinished where state <> 2 and (scope, key) > (?1, ?2)`
	sqliteBefore  = ` and scope < ?7`
	sqliteInOrder = ` order by scope, key limit ?3)) where listed or n = ?3 order by scope, key`
)

var sqlite = database{
	name: sqlplane.SQLite,
	read: sqliteRead,
	claim: func(ctx context.Context, tx *sql.Tx, opts store.BeginOptions) (c lookup, err error) {
		c.granted = true // BEGIN IMMEDIATE has excluded all other writers
		var there int
		// The first read has only one column, because the time of a read grows with its columns even if no row exists.
		err = tx.QueryRowContext(ctx, sqliteThere, opts.ID.Scope, opts.ID.Key).Scan(&there)
		if err == nil {
			c.row, err = scan(tx.QueryRowContext(ctx, sqliteRead, opts.ID.Scope, opts.ID.Key))
		}
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return c, err
	},
	expired: `delete from once_operation where scope = ?1 and key = ?2 and state = 2 and expires_at <= ` + sqliteNow,
	insert: `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, since, request, trace, name)
 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ` + sqliteNow + ` + ?9, ` + sqliteNow + `, ?11, ?12, ?13)`,
	swapInsert: `insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, trace, name, point, calling, data, lease_until, expires_at, since)
 values (?1, ?2, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ` + sqliteNow + ` + ?18, ` + sqliteNow + ` + ?19, ` + sqliteNow + `)`,
	swapUpdate: `update once_operation set state = ?3, fence = ?4, claim = ?5, fingerprint = ?6, status = ?7, kind = ?8, head = ?9, body = ?10, request = ?11, trace = ?12, name = ?13,
 point = ?14, calling = ?15, data = ?16, lease_until = ` + sqliteNow + ` + ?17, expires_at = ` + sqliteNow + ` + ?18` +
		sqliteExpect + `?19` + sqliteLease + `?20` + sqliteOver + sqliteNonce + `?21, claim)`,
	swapKeep: `update once_operation set state = ?3, fence = ?4, claim = ?5, status = ?6, kind = ?7, head = ?8, body = ?9,
 point = ?10, calling = ?11, data = ?12, lease_until = ` + sqliteNow + ` + ?13, expires_at = ` + sqliteNow + ` + ?14` +
		sqliteExpect + `?15` + sqliteLease + `?16` + sqliteOver + sqliteNonce + `?17, claim)`,
	swapDelete: `delete from once_operation` + sqliteExpect + `?3` + sqliteLease + `?4` + sqliteOver + sqliteNonce + `?5, claim)`,
	classify:   classifySQLite,
	undefined:  undefinedSQLite,
}

// undefinedSQLite reports whether the table, or a column or index of a later migration, does not exist.
func undefinedSQLite(err error) bool {
	if err == nil {
		return false
	}
	for _, missing := range []string{"no such table", "no such column: trace", "has no column named trace", "no such column: name", "has no column named name", "no such index: once_operation_unfinished"} {
		if strings.Contains(err.Error(), missing) {
			return true
		}
	}
	return false
}

// useGroups lets operations share a COMMIT: see [Config].
func (s *Store) useGroups(ctx context.Context) error {
	if s.file == nil {
		return errors.New("only SQLite has this setting, and a database server groups commits by itself. Try: leave GroupCommit out")
	}
	return s.file.UseGroups(ctx)
}

// openSQLite does the same as open, but first waits until this operation may write to the file. A waiting writer holds
// no connection, so that transactions that only read can use the connections.
func (s *Store) openSQLite(ctx context.Context, opts store.BeginOptions) (*txn, error) {
	// The connection is taken after the wait: see above.
	if s.file.Groups() { // the group waits for the file, and SQLite itself waits for other processes
		if err := lookBeforeWait(opts, func() (store.Record, error) { return s.readBeforeBegin(ctx, opts) }); err != nil {
			return nil, err
		}
		m, err := s.file.Join(ctx, opts, func(ctx context.Context) (*sql.Conn, error) { return s.acquire(ctx, opts) })
		if err != nil {
			return nil, err
		}
		return &txn{s: s, conn: m.Conn, tx: m.Tx, guard: m.Guard, cancel: m.Cancel, stop: m.Detach, member: m}, nil
	}
	came, patience := time.Now(), s.file.LockWait(opts.Timeouts.Lock)
	// A replay must not wait for other writers. So an operation that has to wait is looked up first.
	if !s.file.Take() {
		if err := lookBeforeWait(opts, func() (store.Record, error) { return s.readBeforeBegin(ctx, opts) }); err != nil {
			return nil, err
		}
		waiting := time.Now()
		err := s.file.Wait(ctx, patience)
		addLockWait(opts.Waits, waiting)
		if err != nil {
			return nil, err
		}
	}
	t, err := s.openBy(ctx, opts, func(t *txn, own context.Context) (err error) {
		defer addLockWait(opts.Waits, time.Now())
		t.tx, err = s.file.BeginTx(own, ctx, t.conn, t.guard, came.Add(patience), func() error {
			return lookBeforeWait(opts, func() (store.Record, error) {
				rec, err := s.readSQLite(ctx, t.conn, opts.ID)
				if err != nil { // without a write-ahead log, a reader waits as well
					rec = store.Record{}
				}
				return rec, nil
			})
		})
		return err
	})
	if err != nil {
		// The next writer must not wait for a transaction that did not begin.
		s.file.Next()
		if code, _ := sqlguard.SQLiteCode(err); code&0xff == sqliteProtocol {
			return nil, err
		}
		if again := lookBeforeWait(opts, func() (store.Record, error) { return s.readBeforeBegin(ctx, opts) }); errors.As(again, new(*foundError)) {
			return nil, again // a replay works even if the file cannot be written
		}
		return nil, err
	}
	t.hasTurn = true
	t.limit(opts)
	return t, nil
}

// ownContext marks a statement as one of the store. SQLite keeps such a statement prepared, because parsing it takes as
// long as running it.
func (s *Store) ownContext(ctx context.Context) context.Context {
	if s.file == nil {
		return ctx
	}
	return sqlguard.Own(ctx)
}

// foundError says that openSQLite has begun no transaction, because the operation is done.
type foundError struct{ rec store.Record }

func (*foundError) Error() string { return "the operation is done" }

// lookBeforeWait returns an error if the operation is done, because a replay need not wait for other writers. An
// operation that need not wait is looked up only in its transaction.
func lookBeforeWait(opts store.BeginOptions, read func() (store.Record, error)) error {
	if opts.ID.IsZero() || opts.First {
		return nil
	}
	rec, err := read()
	if err == nil && rec.State == store.StateDone {
		return &foundError{rec}
	}
	return err
}

// These are result codes of SQLite (sqlite.org/rescode.html): the low byte, and two extended codes.
const (
	codeBusy       = 5
	codeLocked     = 6
	codePrimaryKey = 1555
	codeUnique     = 2067
)

func classifySQLite(err error) (kind store.Kind, taken, known bool) {
	if errors.As(err, new(*txlimit.TimeoutError)) {
		return store.KindBusy, false, true
	}
	code, known := sqlguard.SQLiteCode(err)
	switch {
	case !known:
	case code&0xff == codeBusy, code&0xff == codeLocked:
		kind = store.KindRetry
	case code == codePrimaryKey, code == codeUnique:
		taken = true
	}
	return kind, taken, known
}
