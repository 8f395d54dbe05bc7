package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// One name is enough for a join inside a join: the server uses the newest savepoint of a name, and no join leaves
// its savepoint behind.
const (
	savepoint = "savepoint once_join"
	release   = "release savepoint once_join"

	undo = "rollback to savepoint once_join; release savepoint once_join"

	undoSavepoint = "rollback to savepoint once_join"
)

// Join implements [store.Joiner]. Join sends the savepoint, the claim (the lock on the operation) and the
// look-up of the record in one round trip, and writes the new record in a second round trip. The claim is
// held until the caller's transaction ends.
func (s *Store) Join(ctx context.Context, caller pgx.Tx, opts store.BeginOptions) (store.Transaction[pgx.Tx], store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.Record{}, down(err)
	}
	root := &shared{refusal: opts.Refuse}
	outer, ok := caller.(*tx)
	if ok { // the caller's transaction belongs to a handler of this store
		if err := outer.enter(""); err != nil {
			return nil, store.Record{}, &store.Error{Kind: store.KindAborted, Err: err}
		}
		defer outer.root.leave()
		caller, root = outer.Tx, outer.root
	}
	var b pipeline
	b.queue(savepoint)
	// The other options are not used. A timeout would stay set in the caller's transaction after the operation. The
	// look-up is sent at once even with First, because the savepoint needs this round trip anyway. A delayed claim would
	// fail with an error of the server, which would fail the caller's transaction.
	queueClaim(context.WithoutCancel(ctx), &b, store.BeginOptions{ID: opts.ID, StaleAfter: opts.StaleAfter}, pgsql.ReadUnwatched)
	br := caller.SendBatch(ctx, b.batch())
	var c lookup
	_, err := br.Exec()
	set := err == nil
	if set {
		c, err = readLookup(br, b[1:], opts.ID)
	}
	if e := br.Close(); err == nil {
		err = e
	}
	if err == nil && c.watched {
		err = c.lookWatched(ctx, caller, opts)
	}
	if err == nil && c.recovery {
		err = pgsql.ErrRecovery
	}
	if err != nil {
		if set { // without the savepoint, a rollback to it would fail the caller's transaction
			_, _ = caller.Exec(context.WithoutCancel(ctx), undo)
		}
		return nil, store.Record{}, down(err)
	}
	j := &joined{caller: caller, seen: c, claims: claimsOf(caller.Conn(), c.start), user: &tx{Tx: caller, outer: outer, root: root}, before: root.statements.Load()}
	var refused error
	rec := c.row.live()
	switch {
	case opts.ID.IsZero():
		return j, store.Record{}, nil
	case rec.State == store.StateAbsent && c.granted && c.late:
		refused = stale()
	case rec.State == store.StateAbsent && c.granted:
		if refused = j.hold(); refused == nil {
			return j, rec, nil
		}
	case rec.State == store.StateAbsent:
		rec = store.Record{State: store.StateRunning}
	}
	if err := leave(ctx, caller, opts.Durable && rec.State == store.StateDone); err != nil {
		return nil, store.Record{}, down(err)
	}
	return nil, rec, refused
}

// claims counts the claims that joins hold in one transaction of a connection.
type claims struct {
	start time.Time // of the transaction
	held  int
}

const claimsKey = "once.claims"

// claimsOf returns the claims of the transaction that began at the time start. It drops the claims of an earlier
// transaction of the connection.
func claimsOf(conn *pgx.Conn, start time.Time) *claims {
	if conn == nil { // the caller's pgx.Tx is another implementation, which has no connection
		return new(claims)
	}
	data := conn.PgConn().CustomData()
	c, ok := data[claimsKey].(*claims)
	if !ok || !c.start.Equal(start) {
		c = &claims{start: start}
		data[claimsKey] = c
	}
	return c
}

// hold counts the claim that j holds from now on. Too many claims would fill the lock table of the server.
func (j *joined) hold() error {
	if j.claims.held >= pgsql.MaxJoins {
		return &store.Error{Kind: store.KindMisused, Err: fmt.Errorf("pgxstore: %w", pgsql.ErrMaxJoins)}
	}
	j.claims.held++
	j.holds = true
	return nil
}

// leave ends a join that executes nothing. The rollback to the savepoint releases the claim.
func leave(ctx context.Context, caller pgx.Tx, durable bool) error {
	var b pipeline
	b.queue(undoSavepoint)
	if durable {
		// Then the caller's commit waits for the standby, even if the caller writes nothing.
		b.queue(pgsql.Synced)
	}
	b.queue(release)
	return caller.SendBatch(ctx, b.batch()).Close()
}

// joined is a transaction inside the caller's transaction, with a savepoint and a claim.
type joined struct {
	caller pgx.Tx
	user   *tx
	seen   lookup
	claims *claims
	holds  bool  // j is counted in claims
	before int64 // the number of statements before the join
	// undone is true after a rollback to the savepoint.
	undone bool
	over   bool
}

// ended reports whether the savepoint once_join does not belong to j any more.
func (j *joined) ended() bool {
	return j.over || j.user.outer != nil && j.user.outer.ended()
}

func (j *joined) Tx() pgx.Tx { return j.user }

// Statements implements [ability.Counter].
func (j *joined) Statements() int { return int(j.user.root.statements.Load() - j.before) }

// enter excludes the handler. If a call of the handler, or of the outer handler, is running, the connection cannot
// be used any more. Then enter prevents the caller's transaction from committing.
func (j *joined) enter() (leave func(), err error) {
	gate := &j.user.root.gate
	if j.user.outer != nil { // after a collision at this gate, the outer transaction cannot commit
		switch err = gate.enter(); {
		case err == nil:
			return gate.leave, nil
		case errors.Is(err, errCollided):
			return nil, &store.Error{Kind: store.KindMisused, Err: errUnderWay}
		}
		return func() {}, nil // the outer transaction has ended
	}
	if gate.end() {
		if conn := j.caller.Conn(); conn != nil {
			cut(conn.PgConn())
		}
		return nil, &store.Error{Kind: store.KindMisused, Err: errUnderWay}
	}
	return func() {}, nil
}

func (j *joined) Rollback(ctx context.Context) error {
	leave, err := j.enter()
	if err != nil {
		return err
	}
	defer leave()
	switch {
	case j.ended():
		j.user.over.Store(true)
		return &store.Error{Kind: store.KindEnded, Err: pgx.ErrTxClosed}
	case j.undone:
		return nil
	}
	return j.undo(ctx)
}

func (j *joined) undo(ctx context.Context) error {
	j.user.over.Store(true)
	j.user.err, j.user.open, j.user.tail, j.undone = nil, 0, nil, true
	if _, err := j.caller.Exec(ctx, undo); err != nil {
		if over(err) {
			return &store.Error{Kind: store.KindEnded, Err: errors.Join(errEnded, err)}
		}
		return down(err)
	}
	if j.holds {
		j.claims.held-- // the rollback to the savepoint has released the lock
		j.holds = false
	}
	return nil
}

// unfit returns the reason why the join must not commit, or nil. It does not use the connection of a transaction
// of another package: if the handler has ended that transaction, the connection may already belong to another goroutine.
// The statements of Commit detect this.
func (j *joined) unfit() error {
	if _, ours := j.caller.(*session); ours {
		return unfit(j.caller.Conn().PgConn(), j.user)
	}
	return unfitUse(j.user)
}

// over reports whether the caller's transaction, or the savepoint in it, does not exist any more.
func over(err error) bool {
	if pe := serverError(err); pe != nil {
		return pe.Code == "25P01" || pe.Code == "3B001"
	}
	return errors.Is(err, pgx.ErrTxClosed)
}

func (j *joined) Commit(ctx context.Context, c store.Change) error {
	leave, err := j.enter()
	if err != nil {
		return err
	}
	defer leave()
	if j.ended() {
		j.user.over.Store(true)
		return &store.Error{Kind: store.KindEnded, Err: pgx.ErrTxClosed}
	}
	j.over = true
	if err := j.unfit(); err != nil {
		if !j.undone {
			_ = j.undo(ctx)
		}
		return err
	}
	j.user.over.Store(true)
	if j.seen.id.IsZero() && !c.ID.IsZero() && c.Expect.Fence == 0 { // the insert of the record takes a lock, too
		if err := j.hold(); err != nil {
			if !j.undone {
				_ = j.undo(ctx)
			}
			return err
		}
	}
	var b pipeline
	if j.undone {
		// The undo has released the savepoint, and a failure of the statements below must be undone as well.
		b.queue(savepoint)
	}
	queueChange(&b, c, &j.seen)
	tail := j.user.tail
	if j.user.outer != nil {
		tail = nil // the appended statements are sent with the outer commit
	}
	queueWrites(&b, tail, c.Writes)
	b.queue(release)
	if err := j.send(ctx, b); err != nil {
		return err
	}
	// The appended statements move only after success, so that a failed join appends nothing.
	if j.user.outer != nil {
		j.user.outer.tail = append(j.user.outer.tail, j.user.tail...)
	}
	return nil
}

// send sends the writes of a join. After an error, the caller's transaction contains none of these writes.
func (j *joined) send(ctx context.Context, b pipeline) error {
	failed, _, err := results(context.WithoutCancel(ctx), j.caller.SendBatch(ctx, b.batch()), b)
	if err == nil {
		return nil
	}
	if failed > 0 || !j.undone { // otherwise the savepoint itself has failed
		_ = j.undo(ctx)
	}
	pe := serverError(err)
	switch {
	case over(err):
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	case pe == nil && err.Error() == "conn busy": // pgconn has no other name for this error
		return &store.Error{Kind: store.KindMisused, Err: errOpen}
	case pe == nil || fatal(pe): // the transaction has ended together with its connection
		return &store.Error{Kind: store.KindUnavailable, Err: err}
	}
	return classify(err, b.at(failed))
}
