package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sqlguard"
	"github.com/oncelib/once/store"
)

// nowMillis is the database's clock. It does not move within one statement.
const nowMillis = `cast((julianday('now') - 2440587.5) * 86400000.0 as integer)`

const sqliteColumns = `state, fence, claim, fingerprint, status, kind, head, body, request, coalesce(point, ''), calling, data,
 coalesce(lease_until <= ` + nowMillis + `, 0), since, coalesce(state = 2 and expires_at <= ` + nowMillis + `, 0)`

const sqliteRead = `select ` + sqliteColumns + ` from once_operation where scope = ?1 and key = ?2`

const sqliteExpect = ` where scope = ?1 and key = ?2 and state <> 2`

var sqlite = dialect{
	name: SQLite,
	read: sqliteRead,
	claim: func(ctx context.Context, tx *sql.Tx, ask store.Ask) (c claim, err error) {
		c.granted = true // BEGIN IMMEDIATE has excluded everyone else
		c.row, err = scan(tx.QueryRowContext(ctx, sqliteRead, ask.ID.Scope, ask.ID.Key))
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return c, err
	},
	expired: `delete from once_operation where scope = ?1 and key = ?2 and state = 2 and expires_at <= ` + nowMillis,
	insert: `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, since, request)
 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ` + nowMillis + ` + ?9, ` + nowMillis + `, ?11)`,
	swapInsert: `insert into once_operation (scope, key, state, fence, claim, fingerprint, status, kind, head, body, request, point, calling, data, lease_until, expires_at, since)
 values (?1, ?2, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ` + nowMillis + ` + ?16, ` + nowMillis + ` + ?17, ` + nowMillis + `)`,
	swapUpdate: `update once_operation set state = ?3, fence = ?4, claim = ?5, fingerprint = ?6, status = ?7, kind = ?8, head = ?9, body = ?10,
 request = ?11, point = ?12, calling = ?13, data = ?14, lease_until = ` + nowMillis + ` + ?15, expires_at = ` + nowMillis + ` + ?16` + sqliteExpect +
		` and fence = ?17 and (not ?18 or (state = 1 and lease_until <= ` + nowMillis + `))`,
	swapDelete: `delete from once_operation` + sqliteExpect + ` and fence = ?3 and (not ?4 or (state = 1 and lease_until <= ` + nowMillis + `))`,
	classify:   classifySQLite,
	undefined:  func(err error) bool { return err != nil && strings.Contains(err.Error(), "no such table") },
}

// patience makes a connection of a group wait for the file's lock no longer than ctx lasts:
// SQLite does not hear a cancellation while it waits; nor longer than lock, if that is
// set. It returns whether [txn.patient] has to undo that.
func (s *Store) patience(ctx context.Context, conn *sql.Conn, lock time.Duration) (hurried bool) {
	left := s.busy
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline).Milliseconds())
	}
	if lock > 0 {
		left = min(left, lock.Milliseconds())
	}
	if left >= s.busy {
		return false
	}
	_, _ = conn.ExecContext(s.own(context.WithoutCancel(ctx)), busyTimeout(max(1, left)))
	return true
}

// pollEvery is how often the first one in the line looks whether another process has left
// the file.
const pollEvery = time.Millisecond

// openInLine is open when it is its turn. The connection is asked for then: who waits needs
// none, and keeps none from those who only read.
func (s *Store) openInLine(ctx context.Context, ask store.Ask) (*txn, error) {
	came, bound := time.Now(), s.bound(ask)
	if err := s.line.wait(ctx, bound, false); err != nil {
		return nil, err
	}
	t, err := s.openBy(ctx, ask, func(t *txn, own context.Context) error {
		return t.poll(own, ctx, came.Add(bound))
	})
	if err != nil {
		s.line.next(s.patient())
		return nil, err
	}
	t.line = s.line
	t.limit(ask, 0)
	return t, nil
}

// poll begins the transaction as soon as no other process has the file. SQLite's own wait
// would look after 1, 2, 5, ... 100 ms, and would not hear a cancellation.
func (t *txn) poll(own, caller context.Context, until time.Time) (err error) {
	if _, err := t.conn.ExecContext(own, busyTimeout(0)); err != nil {
		return err
	}
	for {
		t.tx, err = t.conn.BeginTx(t.guard.Context(own), nil)
		if code, ok := sqlguard.SQLiteCode(err); err == nil || !ok || code&0xff != codeBusy || time.Now().After(until) {
			return errors.Join(err, t.patient(err == nil))
		}
		select {
		case <-time.After(pollEvery):
		case <-caller.Done():
			return errors.Join(caller.Err(), err, t.patient(false))
		}
	}
}

// patient gives the connection its busy_timeout back, or the connection up. Once the
// transaction is open that must go through it: a connection that is lost waits for it to end.
func (t *txn) patient(begun bool) error {
	ctx, text := t.s.own(context.Background()), busyTimeout(t.s.busy)
	var err error
	if begun {
		_, err = t.tx.ExecContext(ctx, text)
	} else {
		_, err = t.conn.ExecContext(ctx, text)
	}
	if err != nil {
		if begun {
			_ = t.tx.Rollback()
		}
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

func busyTimeout(ms int64) string { return "pragma busy_timeout = " + strconv.FormatInt(ms, 10) }

// SQLite's result codes (sqlite.org/rescode.html): the low byte, and two extended
// ones.
const (
	codeBusy       = 5
	codeLocked     = 6
	codePrimaryKey = 1555
	codeUnique     = 2067
)

func classifySQLite(err error) (kind store.Kind, taken, known bool) {
	if errors.As(err, new(*sqlguard.TimeoutError)) {
		return store.Busy, false, true
	}
	code, known := sqlguard.SQLiteCode(err)
	switch {
	case !known:
	case code&0xff == codeBusy, code&0xff == codeLocked:
		kind = store.Retry
	case code == codePrimaryKey, code == codeUnique:
		taken = true
	}
	return kind, taken, known
}
