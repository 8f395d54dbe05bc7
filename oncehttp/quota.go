package oncehttp

import "github.com/oncelib/once/store"

// overQuota is the problem of a request that begins an operation whose principal has used its quota up.
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

// begun reports whether a record of the operation exists, so that the engine must decide about the request. It also returns true if the record cannot
// be read.
func (x *Exchange) begun() bool {
	ctx, cancel := x.Context()
	defer cancel()
	if x.route.cached(x.Operation) {
		return true
	}
	rec, err := x.route.read(ctx, x.Operation)
	return err != nil || rec.State != store.StateAbsent
}
