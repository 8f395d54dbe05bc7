package saga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/store"
)

// Start starts a saga in a transaction of the caller: the saga is started if and only if tx commits. After the
// commit any node may run the saga; [Handle.Result] runs the saga in this process. If the saga was already
// started with the same input, Start changes nothing and returns a handle of the started saga. If the saga was
// already started with another input, the error has the code [once.CodeMismatch]. If another transaction is
// starting the same saga, Start waits for the end of that transaction.
func Start[TX, In, Out any](ctx context.Context, r *Runner[TX], tx TX, d *Definition[In, Out], id ID, in In) (*Handle[Out], error) {
	h, err := handleOf[TX](r, d, id, in)
	if err != nil {
		return nil, err
	}
	run := r.begin(ctx, h.def, h.id, h.in)
	run.waits = true
	c, err := run.change(end{saved: run.saved, state: store.StateWaiting})
	if err != nil {
		run.own.Close()
		return nil, h.failed(once.CodeUnavailable, once.EffectNotApplied, err)
	}
	switch rec, err := r.writer.Write(ctx, tx, c); {
	case err == nil:
		// The lease is not held yet: this process only may run the saga before other nodes look for it.
		run.own.Adopt(c.Next)
		h.run, h.until = run, time.Now().Add(r.cfg.Every)
		return h, nil
	case store.KindOf(err) == store.KindTaken && rec.State != store.StateAbsent:
		run.own.Close()
		if err := h.compare(rec); err != nil {
			return nil, err
		}
		return h, nil
	default:
		run.own.Close()
		return nil, h.failed(once.CodeUnavailable, once.EffectNotApplied, err)
	}
}

// Do starts a saga and runs it in this process. The start is part of the commit of the saga's first step. If the
// saga with this ID was already started with the same input, Do returns the outcome of the started saga. See
// [Handle.Result] for the results of Do.
func Do[TX, In, Out any](ctx context.Context, r *Runner[TX], d *Definition[In, Out], id ID, in In) (out Out, err error) {
	h, err := handleOf[TX](r, d, id, in)
	if err != nil {
		return out, err
	}
	h.run = r.begin(ctx, h.def, h.id, h.in)
	return h.Result(ctx)
}

// Handle is a saga that was started. Several goroutines must not use one Handle at the same time.
type Handle[Out any] struct {
	n    *node
	def  *definition
	id   store.ID
	in   json.RawMessage
	work func(func())

	run   *run      // the run, if this process may run the saga first; nil if another process may do so
	until time.Time // until this time this process may run the saga first; zero if nothing is stored
}

func handleOf[TX, In, Out any](r *Runner[TX], d *Definition[In, Out], id ID, in In) (*Handle[Out], error) {
	h := &Handle[Out]{n: r.node, def: d.definition, id: id.store(), work: r.work}
	err := id.check()
	if err == nil && r.defs[d.name] != d.definition {
		err = fmt.Errorf("saga: the definition %q was not passed to saga.NewRunner. Try: pass the definition to saga.NewRunner", d.name)
	}
	if err == nil {
		h.in, err = json.Marshal(in)
	}
	if err == nil {
		err = saved{Input: h.in}.fits()
	}
	if err != nil {
		return nil, h.failed(once.CodeInvalid, once.EffectNotApplied, err)
	}
	return h, nil
}

func (h *Handle[Out]) failed(code once.Code, effect once.Effect, err error) error {
	return &once.Error{Code: code, Effect: effect, Scope: h.id.Scope, Key: h.id.Key, Err: err}
}

// compare returns an error if the record comes from a start with another input or definition.
func (h *Handle[Out]) compare(rec store.Record) error {
	if len(rec.Fingerprint) > 0 && !bytes.Equal(rec.Fingerprint, h.def.asked(h.in)) {
		return h.failed(once.CodeMismatch, once.EffectNotApplied, errors.New("a saga with this ID exists already, and has another input or another definition. Try: another ID"))
	}
	return nil
}

// Result returns the result of the saga. Result runs the saga in this process, unless another node runs the
// saga. If the saga waits, Result also waits, and then continues the saga. So Result works even if no
// [Runner.Run] is active. When ctx ends, Result returns, and the saga continues.
//
// The error of Result is one of the following:
//
//   - nil: the flow has returned the value out, and all steps of the saga have taken effect.
//   - a [once.Failure]: the saga has turned (it has begun to undo its steps), and all effects that have an undo
//     are undone. The failure says why the saga has turned.
//   - [once.CodeUnknown], with [ErrStuck]: a person must decide. The saga continues after the decision, and Result can be called again.
//   - [once.CodeInFlight]: ctx has ended before the end of the saga.
//   - [once.CodeUnavailable] with the effect "not applied": nothing was started.
func (h *Handle[Out]) Result(ctx context.Context) (out Out, err error) {
	rec, err := h.await(ctx)
	if err != nil {
		return out, err
	}
	if err := h.compare(rec); err != nil {
		return out, err
	}
	switch rec.State { //nolint:exhaustive // await returns no other
	case store.StateUnknown:
		s, err := decodeSaved(rec)
		return out, h.failed(once.CodeUnknown, once.EffectInDoubt, errors.Join(fmt.Errorf("%w: %s", ErrStuck, s.Stuck), err))
	case store.StateAbsent:
		return out, h.failed(once.CodeUnavailable, once.EffectNotApplied, fmt.Errorf("%w. Try: call Result after the transaction that started the saga has committed", ErrNothing))
	}
	if rec.Result.Kind == store.ResultOmitted {
		return out, h.failed(once.CodeNoResult, once.EffectInDoubt, errors.New("the saga has ended, and its result was deleted from the record"))
	}
	body, err := openResult(h.n.cfg.Encrypter, h.id, rec)
	if err != nil {
		return out, h.failed(once.CodeNoResult, once.EffectInDoubt, fmt.Errorf("the stored result of the saga cannot be decoded: %w", err))
	}
	if rec.Result.Kind == store.ResultFailure {
		f := new(once.Failure)
		if err := json.Unmarshal(body, f); err != nil {
			return out, h.failed(once.CodeNoResult, once.EffectApplied, err)
		}
		return out, f
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, h.failed(once.CodeNoResult, once.EffectApplied, fmt.Errorf("the stored result of the saga cannot be decoded: %w", err))
	}
	return out, nil
}

// await returns the record of the saga after it has ended, is stuck, or does not exist.
func (h *Handle[Out]) await(ctx context.Context) (store.Record, error) {
	if first := h.run; first != nil && (h.until.IsZero() || time.Now().Before(h.until)) {
		h.run = nil
		if rec, ended, err := h.runFirst(ctx, first); ended || err != nil {
			return rec, err
		}
	}
	for {
		rec, err := h.n.ops.Read(ctx, h.id)
		next := h.n.cfg.Every
		switch {
		// A failed read changes nothing: the handle tries again until ctx ends.
		case err != nil:
		case rec.State == store.StateAbsent, rec.State == store.StateDone, rec.State == store.StateUnknown:
			return rec, nil
		case rec.Idle() && h.compare(rec) != nil:
			return rec, nil //nolint:nilerr // Result compares the record again, and returns the error
		case rec.Idle() && !h.n.isStopping():
			over, pause := h.n.isOver(ctx, h.id, rec)
			// Another node may run the saga, or a wake may end the wait, so the next look comes after Every at the latest.
			if !over {
				next = min(next, pause)
				break
			}
			r, err := h.n.takeOver(ctx, h.id, rec)
			if err == nil {
				_, _ = h.execute(ctx, r) // the next Read shows the outcome
				continue
			}
		}
		if !sleep.For(ctx, next) {
			return rec, h.failed(once.CodeInFlight, once.EffectInDoubt, errors.Join(ctx.Err(), err))
		}
	}
}

// runFirst runs a saga that this handle has started, and reports whether the saga has ended.
func (h *Handle[Out]) runFirst(ctx context.Context, first *run) (rec store.Record, ended bool, err error) {
	left, err := h.execute(ctx, first)
	switch {
	case left:
		return rec, false, h.failed(once.CodeInFlight, once.EffectInDoubt, err)
	case first.final != nil:
		rec = *first.final
		rec.Fingerprint = nil // the record comes from this run, so it needs no comparison
		return rec, true, nil
	// The fence is 0, so no write was applied and nothing of the saga is stored.
	case err != nil && first.own.Fence() == 0 && first.lost == nil && !errors.Is(err, errExists):
		return rec, false, h.failed(once.CodeUnavailable, once.EffectNotApplied, err)
	}
	return rec, false, nil // the stored record shows the outcome
}

// isOver reports whether a saga that no node runs can continue. If it cannot, pause is the longest time until it can.
func (n *node) isOver(ctx context.Context, id store.ID, rec store.Record) (over bool, pause time.Duration) {
	s, err := decodeSaved(rec)
	if err != nil || rec.State != store.StateWaiting {
		return true, 0
	}
	if over, err := n.due.over(ctx, id, s.Due); err == nil && over {
		return true, 0
	}
	if pause = time.Until(s.Due); pause <= 0 { // the process that has written the time has another clock
		pause = n.cfg.Every
	}
	return false, pause
}

// execute runs the saga. It returns when the saga stops, or when ctx ends. In the second case left is true, and the saga continues.
func (h *Handle[Out]) execute(ctx context.Context, r *run) (left bool, err error) {
	ended := make(chan error, 1)
	// The saga continues after the end of the caller's context: only the wait for the saga ends.
	h.work(func() { ended <- r.execute(context.WithoutCancel(ctx)) })
	select {
	case err := <-ended:
		return false, err
	case <-ctx.Done():
		return true, ctx.Err()
	}
}
