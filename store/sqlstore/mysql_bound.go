package sqlstore

import (
	"context"
	"database/sql/driver"
	"math"
	"strings"
	"time"

	"github.com/oncelib/once/store"
)

// bounds are settings of a session: they only tighten, and are given back with the
// connection. Those of MySQL are fewer: it does not bound how long a transaction may lie
// idle, and of statements only those that read.
type bounds struct {
	setting string
	unit    time.Duration
	value   time.Duration
}

func (s *Store) mysqlBounds(t store.Timeouts) []bounds {
	list := []bounds{{"innodb_lock_wait_timeout", time.Second, t.Lock}, {"lock_wait_timeout", time.Second, t.Lock}} // rows, tables
	if !s.compound {
		return append(list, bounds{"max_execution_time", time.Millisecond, t.Statement})
	}
	return append(list, bounds{"max_statement_time", time.Second, t.Statement}, bounds{"idle_transaction_timeout", time.Second, t.Idle})
}

// bindMySQL sets the bounds of a transaction that has just begun, in one statement.
func (t *txn) bindMySQL(ctx context.Context, timeouts store.Timeouts) error {
	var set, undo []string
	var values []any
	for _, b := range t.s.mysqlBounds(timeouts) {
		if b.value == 0 {
			continue
		}
		was, value := "@once_"+b.setting, float64(b.value)/float64(b.unit)
		if b.setting != "max_statement_time" { // the only one that is not whole
			value = math.Ceil(value)
		}
		is := "@@" + b.setting
		limit := "least(" + is + ", ?)"
		if !strings.HasSuffix(b.setting, "lock_wait_timeout") { // 0 is no bound
			limit = "if(" + is + " = 0, ?, " + limit + ")"
			values = append(values, value)
		}
		values = append(values, value)
		set = append(set, was+" = "+is+", "+b.setting+" = "+limit)
		undo = append(undo, b.setting+" = "+was)
	}
	if len(set) == 0 {
		return nil
	}
	t.unbind = "set " + strings.Join(undo, ", ")
	_, err := t.tx.ExecContext(ctx, fill("set "+strings.Join(set, ", "), values...))
	return err
}

// unbound gives the connection's own bounds back, or the connection up.
func (t *txn) unbound() {
	if t.unbind == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), unbindTime)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, t.unbind); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

const unbindTime = 5 * time.Second
