package oncehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/nested"
	"github.com/oncelib/once/internal/base/testtx"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
)

// run is one run of a handler. It is also the context of the handler.
type run struct {
	context.Context //nolint:containedctx // a run is a context

	engine    any
	key       string
	principal string // "" if the method is not keyed
	tx        any
	recorder  recorder
	outer     http.Header // the header before the handler; nil if it was empty
	body      body

	mu           sync.Mutex    // http.TimeoutHandler can leave a handler running after its answer
	ended        bool          // the run is over, and later calls have no effect
	failed       error         // the error that the handler gave to Fail
	final        *once.Failure // the error that the handler gave to Fail, if it is a Failure
	decided      bool          // the handler has called Decide
	verdict      Verdict
	storedStatus string // stored or omitted

	values [8]string // the backing array of the values of the answer's header
}

type runKey struct{}

// Value implements [context.Context].
func (r *run) Value(key any) any {
	switch key {
	case runKey{}:
		return r
	// A nested middleware compares its Config with this one.
	case nested.Key{Engine: r.engine}:
		return &r.recorder.plan.Config
	}
	return r.Context.Value(key)
}

func runOf(ctx context.Context) (*run, bool) {
	r, ok := ctx.Value(runKey{}).(*run)
	return r, ok
}

// answer returns the answer of the handler in the form that the engine stores.
func (r *run) answer() (once.Answer, error) {
	r.mu.Lock()
	// This comes before the answer is read, because http.TimeoutHandler may have left the handler running.
	r.ended = true
	r.mu.Unlock()
	rec := &r.recorder
	if r.failed != nil {
		return once.Answer{}, r.failed
	}
	if r.final != nil {
		r.end(r.final)
	}
	rec.finish()
	if rec.refused != nil {
		return once.Answer{}, rec.refused
	}
	if !r.decided {
		r.verdict = rec.plan.verdicts[rec.status]
	}
	// The error makes the engine roll the transaction back.
	if r.verdict == VerdictDiscard {
		return once.Answer{}, &notStoredError{rec.status}
	}
	r.storedStatus = wire.StatusStored
	a := once.Answer{Rollback: r.verdict == VerdictAnswerOnly}
	stored, fits := rec.plan.redacted(store.Result{Status: rec.status, Header: rec.storedLines, Body: rec.body[:len(rec.body):len(rec.body)]})
	if a.Result = stored; !fits || rec.size() > rec.plan.MaxStored {
		r.storedStatus = wire.StatusOmitted
		a.Result = store.Result{Kind: store.ResultOmitted, Status: rec.status}
	}
	return a, nil
}

// answerNotStored reports whether the handler has answered and the answer is not stored.
func (r *run) answerNotStored() bool {
	return r.recorder.handlerReturned && r.recorder.refused == nil && r.verdict == VerdictDiscard
}

// Tx returns the transaction of the operation that ctx belongs to. The handler must do its writes in the transaction that Tx returns, which is
// committed together with the key and the answer. Tx panics if ctx has no transaction or a transaction of another type, because the handler's writes
// would then not be protected against repetition.
//
// If the middleware of two engines is nested, Tx returns the transaction of the inner middleware. [once.Engine.Tx] returns the transaction of a given
// engine.
func Tx[TX any](ctx context.Context) TX {
	r, ok := runOf(ctx)
	if !ok {
		if tx, test := testtx.Of(ctx).(TX); test { // a transaction of oncetest.WithTx
			return tx
		}
		panic("oncehttp: Tx: the context has no transaction.\n" +
			"Try: the context of a request that has passed Middleware and whose method is in Preset.Methods.")
	}
	tx, ok := r.tx.(TX)
	if !ok {
		panic(fmt.Sprintf("oncehttp: Tx: the transaction has the type %T.\nTry: oncehttp.Tx[%[1]T](ctx).", r.tx))
	}
	return tx
}

// Key returns the key of the operation that ctx belongs to. ok is false outside of the middleware, and if the request has no key. For calls to other
// services, derive further keys from the result of Key with [once.DeriveKey].
func Key(ctx context.Context) (key string, ok bool) {
	r, ok := runOf(ctx)
	if !ok {
		return "", false
	}
	return r.key, r.key != ""
}

// Principal returns the principal of the operation that ctx belongs to. The principal is the result of Config.Principal for the client's request,
// also if the operation is resumed without the client ([Resume]). ok is false outside of the middleware, and for methods that do not carry keys.
func Principal(ctx context.Context) (principal string, ok bool) {
	r, ok := runOf(ctx)
	if !ok {
		return "", false
	}
	return r.principal, r.principal != ""
}

// Decide overrides, for the answer of this run of the handler, the verdict of the Preset: whether the writes are committed and the answer is stored.
// For example, [VerdictCommit] keeps the writes of a 402, [VerdictAnswerOnly] stores a 409 as the final answer, and [VerdictDiscard] lets a retry
// execute again after a 200. Outside of the middleware Decide does nothing. Decide panics if v is not one of the three verdicts.
func Decide(ctx context.Context, v Verdict) {
	if v > VerdictCommit {
		panic(fmt.Sprintf("oncehttp: Decide: the verdict %d does not exist. Try: VerdictDiscard, VerdictAnswerOnly or VerdictCommit", v))
	}
	if r, ok := runOf(ctx); ok {
		r.note(func() { r.decided, r.verdict = true, v })
	}
}

// note calls do, unless the run is over.
func (r *run) note(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		do()
	}
}

// Fail reports that the work of the handler has failed with err. The handler calls Fail instead of writing an answer.
//
// If the chain of err has a [once.Failure], the failure is final: the answer is a problem with status 422 and the code and message of the Failure.
// The answer with status 422 is stored and replayed. The writes of the handler are rolled back, unless Failure.CommitWrites is set; finished phases
// of work under a lease stay committed. To answer with another status than 422, call [WriteProblem] instead of Fail.
//
// If the chain of err has no Failure, the transaction is rolled back and nothing is stored. After a serialization failure or a deadlock the handler
// runs again, up to the engine's limit of runs ([once.Config].Runs), and after the last run the client gets 503. After an error that is neither a
// Failure, a serialization failure nor a deadlock, the client gets 500. The engine's observer receives err, and the client does not receive err. Call
// Fail only one time, and then return from the handler.
//
// Fail can roll nothing back outside of the middleware, and for requests whose method (such as GET) the middleware passes on without a transaction.
// If Fail can roll nothing back, the client gets 500, which does not say whether writes were applied, and err is logged by [slog.Default].
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		err = errors.New("oncehttp: Fail was called with a nil error")
	}
	final := (*once.Failure)(nil)
	switch {
	case !errors.As(err, &final):
	// A nil *once.Failure in an error is not a nil error.
	case final == nil:
		err = errNilFailure
	case len(final.Detail) > 0 && !json.Valid(final.Detail):
		err, final = errors.New("oncehttp: Fail was called with a *once.Failure whose Detail is not valid JSON"), nil
	}
	run, ok := runOf(r.Context())
	switch {
	case ok && final != nil:
		run.note(func() { run.failed, run.final = nil, final })
		return
	case ok:
		run.note(func() { run.failed, run.final = err, nil })
		return
	case final != nil:
		WriteProblem(w, failed(final))
		return
	}
	slog.ErrorContext(r.Context(), "oncehttp: Fail was called outside of an operation, so it has rolled nothing back", "error", err) // no engine and thus no observer is known here
	p := new(plan).problem(ProblemHandlerFailed)
	p.Retryable, p.Detail = false, "The request has failed. It is not known whether it has taken effect."
	WriteProblem(w, p)
}

var errNilFailure = errors.New("oncehttp: Fail was called with a nil *once.Failure as its error. Try: var err error instead of var f *once.Failure")

// end replaces the answer of the run with the problem for a failure.
func (r *run) end(f *once.Failure) {
	rec := &r.recorder
	header := rec.header
	clear(header)
	maps.Copy(header, r.outer)
	*rec = recorder{plan: rec.plan, header: header, outerEncoding: rec.outerEncoding}
	rec.plan.preset.WriteProblem(rec, failed(f))
	r.decided, r.verdict = true, VerdictAnswerOnly
	if f.CommitWrites {
		r.verdict = VerdictCommit
	}
}

// failed returns the problem for a final failure. The code belongs to the program, so the problem has no type of this package.
func failed(f *once.Failure) Problem {
	p := Problem{Status: http.StatusUnprocessableEntity, Code: ProblemCode(f.Code), Detail: f.Message}
	if len(f.Detail) > 0 {
		p.Extra = map[string]any{"failure": f}
	}
	return p
}
