package sqlstore

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// sessionTimeout is a setting of a session. The store only shortens it, and restores it when the connection returns to
// the pool. MySQL limits only the time of statements that read. MySQL has no limit for idle transactions, but the limit
// for idle sessions ends them as well.
type sessionTimeout struct {
	setting string
	unit    time.Duration
	value   time.Duration
}

func (s *Store) mysqlTimeouts(t store.Timeouts) []sessionTimeout {
	list := []sessionTimeout{{"innodb_lock_wait_timeout", time.Second, t.Lock}, {"lock_wait_timeout", time.Second, t.Lock}} // for locks of rows, and for locks of tables
	if !s.compound {
		return append(list, sessionTimeout{"max_execution_time", time.Millisecond, t.Statement}, sessionTimeout{"wait_timeout", time.Second, t.Idle})
	}
	return append(list, sessionTimeout{"max_statement_time", time.Second, t.Statement}, sessionTimeout{"idle_transaction_timeout", time.Second, t.Idle})
}

// setTimeouts sets the timeouts of a transaction that has just begun, in one statement. It does nothing if the session
// has these timeouts already.
func (t *txn) setTimeouts(ctx context.Context, timeouts store.Timeouts) error {
	for _, set := range t.timeoutsMySQL(timeouts) {
		if _, err := t.tx.ExecContext(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// timeoutsMySQL returns the statement of setTimeouts, if a statement is needed.
func (t *txn) timeoutsMySQL(timeouts store.Timeouts) (statements []string) {
	// The session has them already.
	if t.restore != "" {
		return nil
	}
	var set, undo []string
	var values []any
	for _, b := range t.s.mysqlTimeouts(timeouts) {
		if b.value == 0 {
			continue
		}
		was, value := "@once_"+b.setting, float64(b.value)/float64(b.unit)
		// Only max_statement_time accepts fractions of its unit.
		whole := b.setting != "max_statement_time"
		if whole {
			value = math.Ceil(value)
		}
		is := "@@" + b.setting
		limit := "least(" + is + ", ?)"
		if !strings.HasSuffix(b.setting, "wait_timeout") { // for the other settings, 0 means no limit
			limit = "if(" + is + " = 0, ?, " + limit + ")"
			values = append(values, value)
		}
		if whole { // MySQL accepts only integers here, and the result of least is not one
			limit = "cast(" + limit + " as unsigned)"
		}
		values = append(values, value)
		set = append(set, was+" = "+is+", "+b.setting+" = "+limit)
		undo = append(undo, b.setting+" = "+was)
	}
	if len(set) == 0 {
		return nil
	}
	t.restore = "set " + strings.Join(undo, ", ")
	return []string{fill("set "+strings.Join(set, ", "), values...)}
}

// restoreTimeouts restores the timeouts of the session. If this fails, it closes the connection.
func (t *txn) restoreTimeouts() {
	if t.restore == "" || t.guard.Unopened() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTime)
	defer cancel()
	if sqlguard.OnConn(func() error { _, err := t.conn.ExecContext(ctx, t.restore); return err }) != nil {
		sqlguard.Drop(t.conn)
	}
}

const restoreTime = 5 * time.Second
