package rpc

import (
	"context"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// reasonStoredBytes is that of a call whose principal has used its quota up. Over HTTP it is RATE_LIMIT.stored_bytes.
const reasonStoredBytes = "STORED_BYTES"

var overQuotaProblem = Problem{
	Code: ResourceExhausted, Reason: reasonStoredBytes, Retryable: true,
	Message: "Your quota of stored answers is used up. This call was not begun. Make the same call again, with the same idempotency key, when earlier answers have expired, or ask for a larger quota.",
}

// overQuota is the problem of a call that begins an operation whose principal has used its quota up.
func (s *Server[TX]) overQuota(ctx context.Context, c Call, op once.Operation) *Problem {
	if s.Quota == nil || op.Key == "" || s.Undoes[c.Method] != "" { // an undo deletes nothing, but its principal must be able to give back
		return nil
	}
	after, ok := s.Quota.Admit(op.Scope, func() bool { return s.begun(ctx, op) })
	if ok {
		return nil
	}
	p := overQuotaProblem
	p.After = after
	return &p
}

// begun reports whether something is stored of the operation, so that the engine decides. If a read fails it decides as well.
func (s *Server[TX]) begun(ctx context.Context, op once.Operation) bool {
	if s.Engine.Cached(op) {
		return true
	}
	rec, err := s.Engine.ReadRecord(ctx, op)
	return err != nil || rec.State != store.StateAbsent
}

// addStored tells the quota what an operation that was executed has stored.
func (s *Server[TX]) addStored(ctx context.Context, op once.Operation, r store.Result) {
	if s.Quota != nil && op.Key != "" {
		s.Quota.Add(ctx, op.Scope, head.Size(r.Header)+len(r.Body)+len(op.Request))
	}
}
