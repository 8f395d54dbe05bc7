package once

import (
	"context"
	"fmt"

	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/engine/declared"
	"github.com/oncelib/once/store"
)

// Batch collects the writes of an operation that reads nothing between its writes: see [DoBatch].
type Batch struct {
	writes []store.Statement
	over   bool
	of     *current.Operation // the operation; nil for the batch of a package that sends the writes itself
}

// Exec declares a write, in the SQL dialect of the store. The caller must not change the arguments args
// before the operation has ended. If the write returns rows, neither the handler nor a later write of the
// batch can read these rows.
func (b *Batch) Exec(sql string, args ...any) { b.Add(store.Statement{SQL: sql, Args: args}) }

// ExecRows declares a write that must affect exactly rows rows; rows is 1 or more. The database server checks
// the number of affected rows before COMMIT. If the write affects another number of rows, nothing is applied,
// and [DoBatch] returns an error with [CodeFailed], whose cause is [store.ErrRows]. The write of ExecRows
// must have no RETURNING clause.
func (b *Batch) ExecRows(rows int, sql string, args ...any) {
	if rows < 1 {
		panic(fmt.Sprintf("once: Batch.ExecRows: the number of rows is %d. Try: 1 or more rows, or Batch.Exec if the number is not known", rows))
	}
	b.Add(store.Statement{SQL: sql, Args: args, Rows: rows})
}

// Add declares a write that another package has prepared, such as a message of an outbox. The write s is sent
// together with the writes of the handler.
func (b *Batch) Add(s store.Statement) {
	if b.over {
		panic("once: the handler has returned, and its Batch was sent, so the Batch accepts no more writes. Try: add all writes before the handler returns")
	}
	b.writes = append(b.writes, s)
}

func init() { //nolint:gochecknoinits // for packages that this one cannot import
	declared.Writes = func(b any) []store.Statement { return b.(*Batch).writes } //nolint:forcetypeassert // of package saga
	current.Bind = func(b any, o *current.Operation) { b.(*Batch).of = o }       //nolint:forcetypeassert // likewise
	current.OfBatch = func(b any) *current.Operation {                           // called by package outbox
		if o := b.(*Batch).of; o != nil && !o.ID.IsZero() { //nolint:forcetypeassert // likewise
			return o
		}
		return nil
	}
}

// DoBatch is [Do] for an operation whose writes and result are known before the operation runs. For example,
// use DoBatch if the client makes the ids of new rows, and if each SQL statement checks its own conditions
// (see [Batch.ExecRows]). With pgxstore the claim, the writes, the record and COMMIT are sent in one round
// trip. All stores except pgxstore run the declared writes in an ordinary transaction.
//
// fn runs before the store looks up the operation. If the operation is already done, the declared writes are
// dropped. So fn must do nothing except declare writes. The declared writes are sent after fn has returned. If
// a write fails, the operation fails with the error of that write, as if fn had returned it.
//
// When fn has returned, Config.Settle limits the time of the batch in the same way as the time of COMMIT in
// [Do]. The end of ctx does not end a batch immediately: the engine asks the server to cancel the batch.
// Operation.Timeouts and the deadline of ctx limit the time of the statements in the batch.
//
// If the answer of the database to a batch is lost, the engine finds out whether the batch was applied, as [Do]
// does after a lost answer to COMMIT. If the database has no record of the operation, the engine runs the batch
// again. If the second run of the batch fails too, the error has [EffectInDoubt], although [Do] could report
// [EffectNotApplied] after the same failure: a batch holds no claim, so the server may still receive and apply
// the first copy of the batch.
func DoBatch[T, TX any](ctx context.Context, e *Engine[TX], op Operation, fn func(b *Batch) (T, error)) (Result[T], error) {
	var value T
	declare := func(_ context.Context, b *Batch) (T, error) { return fn(b) }
	return do(ctx, e, &op, handler[TX]{batch: answer(e.cfg.MaxResult, declare, &value)}, &value)
}

// run lets fn declare the writes of b. After fn has returned, b accepts no more writes.
func (b *Batch) run(ctx context.Context, fn func(context.Context, *Batch) (Answer, error)) (Answer, error) {
	defer func() { b.over = true }()
	return fn(ctx, b)
}
