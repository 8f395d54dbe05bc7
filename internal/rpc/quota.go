package rpc

import (
	"context"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// reasonStoredBytes is the reason for a call whose principal has used up its quota. Over HTTP it is RATE_LIMIT.stored_bytes.
const reasonStoredBytes = "STORED_BYTES"

var overQuotaProblem = Problem{
	Code: ResourceExhausted, Reason: reasonStoredBytes, Retryable: true,
	Message: "Your quota of stored answers is used up. This call was not begun. Make the same call again, with the same idempotency key, when earlier answers have expired, or ask for a larger quota.",
}

// overQuota returns the problem of a call that begins an operation although its principal has used up the quota, or nil.
func (s *Server[TX]) overQuota(ctx context.Context, c Call, op once.Operation) *Problem {
	if s.Quota == nil || op.Key == "" || s.Undoes[c.Method] != "" { // an undo stores data too, but its principal must be able to undo
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

// begun reports whether a record of the operation exists. Then the engine decides about the call, not the quota. After a failed
// read the engine decides as well.
func (s *Server[TX]) begun(ctx context.Context, op once.Operation) bool {
	if s.Engine.Cached(op) {
		return true
	}
	rec, err := s.Engine.ReadRecord(ctx, op)
	return err != nil || rec.State != store.StateAbsent
}

// addStored adds the size of an executed operation to the quota.
func (s *Server[TX]) addStored(ctx context.Context, op once.Operation, r store.Result) {
	if s.Quota != nil && op.Key != "" {
		s.Quota.Add(ctx, op.Scope, head.Size(r.Header)+len(r.Body)+len(op.Request))
	}
}
