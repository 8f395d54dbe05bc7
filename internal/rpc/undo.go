package rpc

import (
	"context"
	"errors"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/engine/voided"
	"github.com/oncelib/once/store"
)

// reasonUndone is the reason of the error for a call that arrives after its undo.
const reasonUndone = "UNDONE"

var undoneProblem = Problem{
	Code: FailedPrecondition, Reason: reasonUndone,
	Message: "An undo of this operation has arrived before the operation. The operation was not executed, and will not be executed.",
}

// key returns the lines of metadata that contain the key of a call, and the name of this metadata.
func (s *Server[TX]) key(c Call) (lines []string, name string) {
	if s.Undoes[c.Method] != "" {
		name = UndoesHeader
	} else {
		name = KeyHeader
	}
	return c.Header(name), name
}

// names returns the scope and the key of the operation. An undo has the scope of the method that it undoes.
func (s *Server[TX]) names(c Call, key string) (scope, own string) {
	if undoes := s.Undoes[c.Method]; undoes != "" {
		return wire.Scope(c.Principal, undoes), keyname.Undo(key)
	}
	return wire.Scope(c.Principal, c.Method), key
}

// findUndone returns the answer of the call to undo, and prevents the later execution of this call. It returns nil if the call had
// no effect.
func (s *Server[TX]) findUndone(ctx context.Context, c Call, undo once.Operation) (*Answer, *Problem) {
	lines, _ := s.key(c)
	key, err := wire.ParseKey(lines[0], false)
	if err != nil { // cannot happen, because the line was parsed before
		return nil, invalidKey(err)
	}
	forward := undo
	forward.Key, forward.Name, forward.Fingerprint = key, s.Undoes[c.Method], once.Fingerprint{}
	forward.Attempt.Number = 0 // the undo may be a first attempt, but the call may have been sent before
	rec, _, err := s.Engine.Exec(ctx, forward, func(context.Context, TX) (once.Answer, error) { return once.Answer{Result: voided.Result()}, nil })
	if err != nil {
		return nil, undoProblem(err)
	}
	if rec.Result.Kind == store.ResultFailure { // a stored refusal had no effect
		return nil, nil
	}
	a, err := decode(rec.Result)
	if err != nil {
		return nil, undoProblem(&once.Error{Code: once.CodeNoResult, Effect: once.EffectApplied, Err: err})
	}
	return &a, nil
}

// undoProblem returns the problem of an undo whose call cannot be found. An undo needs the stored answer of the call.
func undoProblem(err error) *Problem {
	p := problemOf(err)
	if once.CodeOf(err) == once.CodeNoResult {
		p.Message = "The undo was not executed, because it needs the answer of the call that it undoes, and this answer is not stored. The call may still be in effect. Undo the effect of the call in another way."
	}
	return p
}

// CheckUndoes returns an error if the engine does not support methods that undo others.
func CheckUndoes[TX any](e *once.Engine[TX], undoes map[string]string) error {
	if _, leased := store.As[ability.Irrevocable](e.Store()); leased && len(undoes) > 0 {
		return errors.New("Config.Undoes does not work with an engine of package lease: its work has several commits, so one transaction cannot undo it. Try: a saga, in which each step has an undo, instead of Config.Undoes")
	}
	return nil
}

type undoneKey struct{}

// UndoneOf returns the answer of the call that the call of ctx undoes.
func UndoneOf(ctx context.Context) (a Answer, ok bool) {
	p, _ := ctx.Value(undoneKey{}).(*Answer)
	if p == nil {
		return a, false
	}
	return *p, true
}
