package once

import (
	"context"
	"fmt"

	"github.com/oncelib/once/internal/engine/current"
	"github.com/oncelib/once/internal/engine/declared"
	"github.com/oncelib/once/store"
)

// Batch is the writes of an operation that reads nothing between them: see [DoBatch].
type Batch struct {
	writes []store.Statement
	over   bool
	of     *current.Operation // the operation; nil: that of a package which sends the writes itself
}

// Exec declares a write, in the SQL of the store. The arguments must not change before
// the operation has ended. Rows that the write returns cannot be read, nor used by a later write.
func (b *Batch) Exec(sql string, args ...any) { b.Add(store.Statement{SQL: sql, Args: args}) }

// ExecRows declares a write that must affect exactly rows rows, at least one. The server
// checks that before COMMIT: if it affects another number nothing is applied, and
// [DoBatch] fails with [CodeFailed] and a cause that is [store.ErrRows]. The write must
// have no RETURNING clause.
func (b *Batch) ExecRows(rows int, sql string, args ...any) {
	if rows < 1 {
		panic(fmt.Sprintf("once: Batch.ExecRows: the number of rows is %d. Try: 1 or more rows, or Batch.Exec if the number is not known", rows))
	}
	b.Add(store.Statement{SQL: sql, Args: args, Rows: rows})
}

// Add declares a write of another package, such as an outbox, next to the writes of the handler.
func (b *Batch) Add(s store.Statement) {
	if b.over {
		panic("once: a Batch was used after its handler had returned; its writes are sent already. Try: add all writes before the handler returns")
	}
	b.writes = append(b.writes, s)
}

func init() { //nolint:gochecknoinits // for packages that this one cannot import
	declared.Writes = func(b any) []store.Statement { return b.(*Batch).writes } //nolint:forcetypeassert // of package saga
	current.Bind = func(b any, o *current.Operation) { b.(*Batch).of = o }       //nolint:forcetypeassert // likewise
	current.OfBatch = func(b any) *current.Operation {                           // of package outbox
		if o := b.(*Batch).of; o != nil && !o.ID.IsZero() { //nolint:forcetypeassert // likewise
			return o
		}
		return nil
	}
}

// DoBatch is [Do] for an operation that knows its writes and its answer beforehand: the client
// makes the ids, and the statements themselves check their conditions ([Batch.ExecRows]).
// Where the store can (pgxstore), claim, writes, record and COMMIT are one round trip;
// other stores run the same declaration in an ordinary transaction.
//
// fn runs before the look-up of the operation. If the operation was done already, the declared
// writes are dropped. So fn declares writes and does nothing else. The writes are sent after fn has returned. If
// one of them fails, the operation fails with that error, as if fn had returned it.
//
// Config.Settle bounds a batch from the moment when fn has returned, as it bounds COMMIT in [Do];
// the end of ctx does not: the server is then asked to end it. Operation.Timeouts and
// the deadline of ctx bound its statements.
//
// A batch whose answer was lost is settled as any commit, and runs again if the database
// has no record of it. If that fails, too, the operation is in doubt where [Do] could say
// that it was not applied: a batch holds no claim that would keep out a batch still on its way.
func DoBatch[T, TX any](ctx context.Context, e *Engine[TX], op Operation, fn func(b *Batch) (T, error)) (Result[T], error) {
	var value T
	declare := func(_ context.Context, b *Batch) (T, error) { return fn(b) }
	return do(ctx, e, &op, handler[TX]{batch: answer(e.cfg.MaxResult, declare, &value)}, &value)
}

// run has fn declare the writes of b. After fn has ended, b accepts no more.
func (b *Batch) run(ctx context.Context, fn func(context.Context, *Batch) (Answer, error)) (Answer, error) {
	defer func() { b.over = true }()
	return fn(ctx, b)
}
