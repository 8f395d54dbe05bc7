package oncehttp

import "github.com/oncelib/once/store"

// overQuota returns the problem if the request would begin an operation and its principal has used up its quota. Otherwise it returns nil.
func (x *Exchange) overQuota() *Problem {
	q := x.plan.Quota
	if q == nil || x.Operation.Key == "" || x.plan.Undoes != "" { // an undo gives bytes back, so a full quota must not stop it
		return nil
	}
	after, ok := q.Admit(x.Operation.Scope, x.begun)
	if ok {
		return nil
	}
	p := x.plan.problem(problemStoredBytes)
	p.RetryAfter = after
	return &p
}

// begun reports whether the operation has a record, so that the engine must decide about the request. It also returns true if the record cannot be
// read.
func (x *Exchange) begun() bool {
	ctx, cancel := x.Context()
	defer cancel()
	if x.route.cached(x.Operation) {
		return true
	}
	rec, err := x.route.read(ctx, x.Operation)
	return err != nil || rec.State != store.StateAbsent
}
