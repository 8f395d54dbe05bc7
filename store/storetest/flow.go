package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
)

// flow is one way of calling the engine.
type flow[TX any] struct {
	name     string
	call     call[TX]
	effects  int  // effects of the operation once it is done
	prepared bool // the operation is done before the call
}

type call[TX any] func(context.Context, trip[TX]) (once.Result[string], error)

// trip is one call of a flow. If misbehave is true, its handler does what the flow is about, such as to panic. Retries
// and rivals have misbehave false.
type trip[TX any] struct {
	t         *testing.T
	e         *once.Engine[TX]
	op        once.Operation
	misbehave bool
}

// ending is what a handler does after it has made its effect.
type ending[TX any] func(ctx context.Context, tx TX, misbehave bool) (string, error)

// flows returns the flows of the fault loop.
func flows[TX any](u *suite[TX]) []flow[TX] {
	all := []flow[TX]{
		{name: "do", call: u.doing(u.succeeds), effects: 1},
		{name: "replay", call: u.doing(u.succeeds), effects: 1, prepared: true},
		{name: "failure", call: u.doing(u.declines), effects: 0},
		{name: "failure kept", call: u.doing(u.declinesAndKeeps), effects: 1},
		{name: "failure replayed", call: u.doing(u.declines), effects: 0, prepared: true},
		{name: "swallowed error", call: u.doing(u.swallows), effects: 1},
		{name: "error", call: u.doing(u.fails), effects: 1},
		{name: "panic", call: recovered(u.doing(u.panics)), effects: 1},
		{name: "batch", call: u.declaring(nil), effects: 1},
		{name: "batch replay", call: u.declaring(nil), effects: 1, prepared: true},
		{name: "batch failure", call: u.declaring(&once.Failure{Code: "declined"}), effects: 0},
		{name: "batch failure kept", call: u.declaring(&once.Failure{Code: "declined", CommitWrites: true}), effects: 1},
	}
	if u.joins {
		all = append(all,
			flow[TX]{name: "join", call: u.joining(u.succeeds), effects: 1},
			flow[TX]{name: "join replay", call: u.joining(u.succeeds), effects: 1, prepared: true},
			flow[TX]{name: "join failure", call: u.joining(u.declines), effects: 0},
			flow[TX]{name: "join swallowed error", call: u.joining(u.swallows), effects: 1},
			flow[TX]{name: "join error", call: u.joining(u.fails), effects: 1},
			flow[TX]{name: "join panic", call: recovered(u.joining(u.panics)), effects: 1},
		)
	}
	return all
}

// handler returns a handler that makes one effect and then calls end.
func (u *suite[TX]) handler(c trip[TX], end ending[TX]) func(context.Context, TX) (string, error) {
	return func(ctx context.Context, tx TX) (string, error) {
		if err := u.Write(ctx, tx, c.op.Key); err != nil {
			return "", err
		}
		return end(ctx, tx, c.misbehave)
	}
}

func (u *suite[TX]) doing(end ending[TX]) call[TX] {
	return func(ctx context.Context, c trip[TX]) (once.Result[string], error) {
		return once.Do(ctx, c.e, c.op, u.handler(c, end))
	}
}

// declaring returns the call of a batch. If end is set, the batch returns a copy of it.
func (u *suite[TX]) declaring(end *once.Failure) call[TX] {
	return func(ctx context.Context, c trip[TX]) (once.Result[string], error) {
		return once.DoBatch(ctx, c.e, c.op, func(b *once.Batch) (string, error) {
			s := u.Statement(c.op.Key)
			b.ExecRows(1, s.SQL, s.Args...)
			if end == nil {
				return once.NewKey(), nil
			}
			f := *end
			f.Message = once.NewKey()
			return "", &f
		})
	}
}

// joining returns a call that joins a transaction of its own. The transaction is committed if there is an answer, and
// rolled back otherwise.
func (u *suite[TX]) joining(end ending[TX]) call[TX] {
	return func(ctx context.Context, c trip[TX]) (r once.Result[string], err error) {
		tx, finish := u.Own(c.t, u.s)
		commit := false
		defer func() { // also when the handler panics
			if e := finish(commit); e != nil {
				err = errors.Join(err, e)
			}
		}()
		r, err = once.Join(ctx, c.e, tx, c.op, u.handler(c, end))
		commit = answered(err)
		return r, err
	}
}

func (u *suite[TX]) succeeds(context.Context, TX, bool) (string, error) { return once.NewKey(), nil }

func (u *suite[TX]) declines(context.Context, TX, bool) (string, error) {
	return "", &once.Failure{Code: "declined", Message: once.NewKey()}
}

func (u *suite[TX]) declinesAndKeeps(context.Context, TX, bool) (string, error) {
	return "", &once.Failure{Code: "declined", Message: once.NewKey(), CommitWrites: true}
}

func (u *suite[TX]) swallows(ctx context.Context, tx TX, misbehave bool) (string, error) {
	if misbehave {
		_ = u.Fail(ctx, tx)
	}
	return once.NewKey(), nil
}

var errTransient = errors.New("transient")

func (u *suite[TX]) fails(_ context.Context, _ TX, misbehave bool) (string, error) {
	if misbehave {
		return "", errTransient
	}
	return once.NewKey(), nil
}

func (u *suite[TX]) panics(_ context.Context, _ TX, misbehave bool) (string, error) {
	if misbehave {
		panic(errTransient)
	}
	return once.NewKey(), nil
}

// recovered turns a panic of the handler into the error that the operation then has.
func recovered[TX any](inner call[TX]) call[TX] {
	return func(ctx context.Context, c trip[TX]) (r once.Result[string], err error) {
		defer func() {
			if v := recover(); v == any(errTransient) {
				err = &once.Error{Code: once.CodeFailed, Effect: once.EffectNotApplied, Scope: c.op.Scope, Key: c.op.Key, Err: errTransient}
			} else if v != nil {
				panic(v)
			}
		}()
		return inner(ctx, c)
	}
}
