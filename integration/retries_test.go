package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oncelib/once"
)

// retries are the ways in which a retry may come to an engine.
var retries = map[string]func(system, context.Context, once.Operation, work) (answer, bool, error){
	"as it was": system.Do,
	"said to be a retry": func(s system, ctx context.Context, op once.Operation, w work) (answer, bool, error) {
		op.Attempt.Number = 2
		return s.Another().Do(ctx, op, w)
	},
	"said to be the first": func(s system, ctx context.Context, op once.Operation, w work) (answer, bool, error) {
		op.Attempt.Number = 1
		return s.Another().Do(ctx, op, w)
	},
	"patiently": func(s system, ctx context.Context, op once.Operation, w work) (answer, bool, error) {
		op.Wait = impatient
		return s.Do(ctx, op, w)
	},
	joining: system.Join,
}

const joining = "in a transaction that writes nothing else"

// retry sends an operation that only the primary has in every way there is. It
// returns the answer, if there is one, and an error if it should not be there, or if
// it should. Some ways may be left out.
func retry(ctx context.Context, c *client, synced bool, without ...string) (*answer, error) {
	type reply struct {
		way      string
		answer   answer
		replayed bool
		err      error
	}
	replies, limit := make(chan reply), patience
	if synced { // no client is answered
		limit = 2 * impatient
	}
	asked := 0
	for way, ask := range retries {
		if slices.Contains(without, way) {
			continue
		}
		asked++
		go func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			r := reply{way: way}
			for first := true; first || once.CodeOf(r.err) == once.CodeInFlight && ctx.Err() == nil; first = false { // behind another retry
				r.answer, r.replayed, r.err = ask(c.s, ctx, c.op, work{key: c.op.Key, attempt: "retry", fails: c.flow == flowFailure})
			}
			replies <- r
		}()
	}
	var got *answer
	var errs []error
	for range asked {
		switch r := <-replies; {
		case synced && r.err == nil:
			errs = append(errs, fmt.Errorf("a retry %s was answered with what the standby has not got: %+v", r.way, r.answer))
		case synced && once.EffectOf(r.err) == once.EffectApplied, synced && once.CodeOf(r.err) == once.CodeMismatch:
			errs = append(errs, fmt.Errorf("a retry %s was told of what the standby has not got: %w", r.way, r.err))
		case !synced && (r.err != nil || !r.replayed || r.answer.Attempt != "client-0"):
			errs = append(errs, fmt.Errorf("a retry %s was told %+v, replayed: %v, %v", r.way, r.answer, r.replayed, r.err)) //nolint:errorlint // nil, perhaps
		case !synced:
			got = &r.answer
		}
	}
	return got, errors.Join(errs...)
}
