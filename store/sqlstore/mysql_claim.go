package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// A claim on MariaDB is the row of the operation, inserted when its transaction begins.
// Transactions that wait for such a row deadlock in InnoDB when it vanishes: each is granted a
// shared lock and wants an exclusive one. So no transaction waits for it, and one that finds
// it taken rolls back before it looks at it. MySQL cannot insert without waiting: see mysql_lock.go.

// claimMySQL begins a transaction that has the claim. If there is none, and no error, the
// record says why.
//
// A connection that was broken before is replaced, as in open: what was not committed
// has not been applied.
func (s *Store) claimMySQL(ctx context.Context, opts store.BeginOptions) (t *txn, rec store.Record, err error) {
	for tries := -1; ; tries-- {
		var isBroken bool
		if t, rec, isBroken, err = s.tryClaim(ctx, opts); err == nil || !isBroken || ctx.Err() != nil || store.KindOf(err) == store.KindBusy {
			return t, rec, err
		}
		if tries < 0 {
			tries = 1 + s.db.Stats().Idle
		}
		if tries == 0 {
			return nil, rec, err
		}
	}
}

func (s *Store) tryClaim(ctx context.Context, opts store.BeginOptions) (_ *txn, _ store.Record, isBroken bool, err error) {
	t, own, err := s.connect(ctx, opts)
	if err != nil {
		return nil, store.Record{}, false, s.down(err)
	}
	try := t.claimByLock
	if s.compound {
		try = t.claimAtOnce
	}
	c, err := try(ctx, own, opts, mysqlClaim)
	var expired row
	for n := 0; err == nil && c.vanished() && n < maxVanished; n++ {
		if n > 1 { // the transaction that has the row, a sweeper perhaps, needs a moment to end
			if err = pause(ctx, n); err != nil {
				break
			}
		}
		if c.row.expired {
			opts.First = true // it has been looked for
			expired = c.row
			c, err = try(ctx, own, opts, mysqlReclaim)
		} else {
			c, err = try(ctx, own, opts, mysqlClaim)
		}
	}
	if err == nil && c.granted {
		err = t.setTimeouts(ctx, opts.Timeouts)
	}
	switch {
	case err != nil:
		if errors.Is(err, errReplica) {
			dropConn(t.conn)
		}
		isBroken = broken(t.conn)
		if t.tx != nil {
			_ = t.tx.Rollback()
		}
		err = s.down(err)
	case c.granted:
		t.id = opts.ID
		if c.row.expired {
			expired = c.row
		}
		return t, expired.live(), false, nil
	case c.vanished() && c.locked: // a caller that wants to wait for longer does so without a connection
		c.row = row{Record: store.Record{State: store.StateRunning}}
	case c.vanished():
		err = &store.Error{Kind: store.KindRetry, Err: errVanished}
	}
	t.release()
	return nil, c.row.live(), isBroken, err
}

// maxVanished bounds how often a claim is tried again because what was in the way is gone.
// Each time another transaction has given up, unless it is a gap between rows that is locked.
const maxVanished = 10

// vanished reports whether there was something in the way which no longer is: a row that
// has expired, a claim that was given up.
func (c *lookup) vanished() bool { return !c.granted && c.row.live().State == store.StateAbsent }

var errVanished = errors.New("the operation's row, or its place, was locked, and then there was none")

// claimAtOnce looks the operation up and claims it in one compound statement of MariaDB,
// which leaves the transaction open if it has the claim. Who has not got it looks again.
func (t *txn) claimAtOnce(ctx, own context.Context, opts store.BeginOptions, how string) (c lookup, err error) {
	word, err := t.compound(ctx, t.s.mysqlCompound(opts, how), &c.row)
	if isLocked(err) { // of an update that finds its place in an index locked, MariaDB tells no handler of the compound
		word = wordLocked
		_, err = t.compound(ctx, "rollback", &c.row)
	}
	if err == nil {
		look := fill(mysqlRead, opts.ID.Scope, opts.ID.Key)
		switch word {
		case wordGranted:
			c.granted = true
			t.guard.IfIncomplete(t.s.recordUnknown(opts.ID))
			t.tx, err = t.conn.BeginTx(t.guard.Adopt(own), &sql.TxOptions{Isolation: levels[opts.Isolation]})
		case wordReplica: // the pool makes another connection, which may lead to the primary
			err = errReplica
		case wordTaken:
			_, err = t.compound(ctx, look, &c.row)
		case wordLocked: // if there is a row; else it is a gap between rows, or the row is gone
			_, err = t.compound(ctx, "begin not atomic set transaction isolation level read uncommitted; "+look+"; end", &c.row)
			c.locked = true
			if c.row.live().State != store.StateAbsent {
				c.row = row{Record: store.Record{State: store.StateRunning}}
			}
		}
	}
	if err != nil { // the state of the connection is unknown
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return c, err
}

// What a compound says where it returns no record.
const (
	wordGranted = "granted"
	wordTaken   = "taken"
	wordLocked  = "locked"
	wordReplica = "replica"
)

// mysqlCompound returns the record that is in the way, or a word. It is short because
// all of it is parsed whatever becomes of it.
func (s *Store) mysqlCompound(opts store.BeginOptions, how string) string {
	id := []any{opts.ID.Scope, opts.ID.Key}
	const granted = sqlguard.Begun + "; select '" + wordGranted + "'; "
	text := mysqlLevels[opts.Isolation] + "start transaction; set statement innodb_lock_wait_timeout = 0 for " + fill(how, id...) + "; "
	if how == mysqlReclaim {
		text += "if row_count() = 1 then " + granted + "else rollback; select '" + wordTaken + "'; end if; "
	} else {
		text += granted
	}
	onPrimary := func(text string) string {
		return "if " + s.replica(opts) + " then select '" + wordReplica + "'; else " + text + "end if; "
	}
	if !opts.Durable {
		text = onPrimary(text)
	}
	if !opts.First {
		text = fill(mysqlRead, id...) + "; if found_rows() = 0 then " + text + "end if; "
	}
	if opts.Durable {
		text = onPrimary(text)
	}
	return "begin not atomic " +
		"declare exit handler for 1062 begin rollback; select '" + wordTaken + "'; end; " +
		"declare exit handler for 1205 begin rollback; select '" + wordLocked + "'; end; " + text + "end"
}

var mysqlLevels = map[store.Isolation]string{
	store.ReadCommitted:  "set transaction isolation level read committed; ",
	store.RepeatableRead: "set transaction isolation level repeatable read; ",
	store.Serializable:   "set transaction isolation level serializable; ",
}

// ask runs a compound, which returns a record or a word, and perhaps an empty result
// before that.
func (t *txn) compound(ctx context.Context, compound string, into *row) (word string, err error) {
	rows, err := t.conn.QueryContext(ctx, compound)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	for more := true; more; more = rows.NextResultSet() {
		columns, err := rows.Columns()
		if err != nil {
			return "", err
		}
		for rows.Next() {
			if len(columns) == 1 {
				err = rows.Scan(&word)
			} else {
				*into, err = scan(rows)
			}
			if err != nil {
				return "", err
			}
		}
	}
	return word, rows.Err()
}

func claimed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}
