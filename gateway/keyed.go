package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/atmostonce"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// maxVoided limits how often one request of a client is forwarded again after a tombstone.
const maxVoided = 3

// settleTime limits the time of one question to the receipts.
const settleTime = 5 * time.Second

var (
	errOtherRequest = errors.New("the receipt belongs to another request with the same key")
	errForgotten    = errors.New("the first attempt of the operation is so old that the receipt may have been deleted")
	errStreamed     = errors.New("gateway: the client has already received a part of an answer")
	errTombstone    = errors.New("the receipt is a tombstone: the service refuses this operation from now on")
	errNoReceipts   = errors.New("the service has answered a request of this route without writing a receipt, so a missing receipt does not prove that an operation was not executed")
	errNoRequest    = errors.New("gateway: the gateway does not store requests, so only the client can send the request again")
)

// serve answers a request with a key: it forwards the request, or answers from the record or the receipt.
func (rt *route) serve(w *client, r *http.Request) {
	sender := http.NewResponseController(w)
	_ = sender.SetReadDeadline(time.Now().Add(rt.BodyTimeout)) // an error is ignored: a server in a test may have no deadlines
	x, ok := rt.reads.Read(w, r)
	if !ok {
		return // the body may also have come too late; in this case the rest of the body is not read
	}
	// The deadline is for the body only. It must not end the wait for the service.
	_ = sender.SetReadDeadline(time.Time{})
	defer x.Close()
	f := rt.newForward(x.Operation)
	f.x, f.r, f.w = x, r, w
	if rt.g.engine == nil {
		f.withReceipts()
		return
	}
	if x.Operation.Attempt.Number == 0 { // without a header the request counts as the first attempt: the write of the intent finds an earlier operation, and the gateway sends nothing before this write
		x.Operation.Attempt.Number = 1
	}
	ctx, cancel := x.Context()
	defer cancel()
	rec, replayed, err := rt.g.engine.Exec(ctx, x.Operation, f.run)
	if rt.OnUnknown == PolicyFail && once.CodeOf(err) == once.CodeUnknown && rt.giveUp(ctx, x.Operation, w.grpc) {
		rec, replayed, err = rt.g.engine.Exec(ctx, x.Operation, f.run)
	}
	// A receipt may exist, although the witness does not trust the receipts of this route.
	if once.CodeOf(err) == once.CodeUnknown && f.ownReceipt(ctx) {
		return
	}
	// A replay adds nothing to the stored bytes.
	if q := rt.g.cfg.Quota; q != nil && err == nil && !replayed {
		q.Add(ctx, x.Operation.Scope, head.Size(rec.Result.Header)+len(rec.Result.Body))
	}
	if f.witness != nil && err == nil && !replayed { // the answer is stored, and the service has committed the receipt of this request before its answer
		f.witness.watch(ctx, rt, f.last)
	}
	f.finish(rec, replayed, err)
}

func (rt *route) newForward(op once.Operation) *forward {
	return &forward{rt: rt, witness: rt.witnesses[op.Name], fingerprint: hex.EncodeToString(op.Fingerprint[:])}
}

// run is the handler for the engine. It commits an intent before the forward, and a result after the forward.
func (f *forward) run(ctx context.Context, r *lease.Run) (once.Answer, error) {
	f.last = nil
	f.checks = f.witness != nil && (f.x == nil || f.witness.trusts(ctx)) // without a client no forward begins, so no receipt can be missing yet
	var said answer
	var err error
	for voided := 0; ; voided++ {
		said, err = lease.Call(ctx, r, wire.ForwardPhase, f.call, f.policy(ctx))
		// After a tombstone the same request may be forwarded again, under a new ID.
		if !errors.Is(err, lease.ErrVoided) || f.last.isAnswered() || voided == maxVoided {
			break
		}
	}
	if err != nil {
		return once.Answer{}, err
	}
	if f.last == nil { // an earlier run has saved that an answer came, but not the answer itself
		f.last = &said
		if found, _ := f.look(ctx, said.Operation); found != nil {
			f.last = found
		}
		f.last.fromReceipt = true
	}
	return once.Answer{Result: f.rt.result(f.last)}, nil
}

// isAnswered reports whether the service has sent an answer that the client may receive, whatever its class is.
func (a *answer) isAnswered() bool { return a != nil && a.hasBody && a.Class != classUnknown }

// call forwards the request under the ID operation, and decides what the answer proves.
func (f *forward) call(ctx context.Context, operation string) (answer, error) {
	switch {
	case f.x == nil:
		return answer{}, lease.NotSent(errNoRequest)
	case f.last != nil && f.last.streamed:
		// Another forward would bring another answer, but the client already has the beginning of this one.
		return answer{}, lease.NotSent(errStreamed)
	}
	a := f.send(ctx, operation)
	f.last = a
	switch {
	// The service has not executed the request, so the key can be used again.
	case a.Class == classNotSent, a.Class == classRefused:
		return answer{}, lease.NotSent(&noAnswerError{a})
	case f.rt.OnUnknown != PolicyCheck && a.Class == classUnknown, f.checks && (a.Class == classUnknown || a.doubted()):
		return answer{}, &noAnswerError{a}
	// An earlier forward still runs at the service, so the conflict is not its answer.
	case f.rt.OnUnknown != PolicyCheck && atmostonce.IsAgain(ctx) && f.rt.saysRunning(a):
		return answer{}, &noAnswerError{a}
	case f.rt.OnUnknown != PolicyCheck:
	case a.Class == classUnknown, a.doubted(), a.Class == classUnknownBody && !a.streamed:
		found, err := f.look(ctx, operation)
		switch {
		case found != nil:
			f.last = found
		case a.Class == classUnknown, a.doubted() && err != nil:
			return answer{}, &noAnswerError{a}
		} // otherwise the answer of the service is stored, because no receipt says anything else
	}
	return *f.last, nil
}

// look returns the answer that the receipt of an operation contains, or nil if no receipt exists.
func (f *forward) look(ctx context.Context, operation string) (a *answer, err error) {
	if f.rt.g.cfg.Receipts == nil {
		return a, nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	r, found, err := f.rt.lookAt(ctx, operation)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return a, nil
	case r.Tombstone: // the tombstone belongs to a forward that an earlier store has recorded
		return nil, errTombstone
	case f.isOfAnother(r):
		return nil, errOtherRequest
	}
	return f.rt.ofReceipt(r), nil
}

// isOfAnother reports whether a receipt belongs to another request.
func (f *forward) isOfAnother(r Receipt) bool {
	return !r.Tombstone && r.Fingerprint != "" && r.Fingerprint != f.fingerprint
}

// policy returns what the engine may do with a forward whose outcome is unknown.
func (f *forward) policy(ctx context.Context) lease.CallPolicy {
	switch f.rt.OnUnknown {
	case PolicyCheck:
		if !f.checks { // the intent is stored as one that a missing receipt never proves without effect, even if receipts are seen later
			return lease.CallPolicy{}
		}
		return lease.CallPolicy{CheckedFor: f.rt.g.cfg.ReceiptsKept, Check: lease.Check(func(_ context.Context, operation string) (answer, lease.Finding, error) {
			return f.settle(ctx, operation)
		})}
	case PolicyForwardSameKey:
		return lease.CallPolicy{DedupedFor: f.rt.UpstreamKeepsKeys}
	case PolicyRetry:
		return lease.CallPolicy{SafeToRepeat: true}
	}
	return lease.CallPolicy{}
}

// settle finds the final outcome of a forward. A receipt is the answer. A tombstone proves that the forward can
// never take effect.
func (f *forward) settle(ctx context.Context, operation string) (answer, lease.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	leave, err := f.rt.ask(ctx)
	if err != nil {
		return answer{}, lease.Unclear, err
	}
	defer leave()
	settle := f.rt.g.cfg.Receipts.Settle
	if !f.witness.trusts(ctx) { // the witness no longer trusts: a receipt was missing after the forward began
		settle = f.rt.lookOnly
	}
	r, err := settle(ctx, operation)
	switch {
	case err != nil:
		return answer{}, lease.Unclear, err
	case r.Tombstone:
		return answer{}, lease.Voided, nil
	case f.isOfAnother(r):
		return answer{}, lease.Unclear, errOtherRequest
	}
	f.last = f.rt.ofReceipt(r)
	return *f.last, lease.Happened, nil
}

// lookOnly replaces Settle for a service that may write no receipts. There a tombstone would prove nothing, so
// lookOnly writes none.
func (rt *route) lookOnly(ctx context.Context, operation string) (Receipt, error) {
	r, found, err := rt.g.cfg.Receipts.Look(ctx, operation)
	if err == nil && (!found || r.Tombstone) {
		err = errNoReceipts
	}
	return r, err
}

// finish answers the client with the result of the engine.
func (f *forward) finish(rec store.Record, replayed bool, err error) {
	a := f.last
	var none *noAnswerError
	switch {
	case a != nil && a.streamed:
		// The client already has the answer.
		a.abortIfCut()
	case err == nil && !replayed:
		f.answer(a)
	case err == nil && rec.Result.Kind == store.ResultOmitted && f.rt.OnUnknown == PolicyCheck:
		f.omitted(rec)
	case errors.Is(err, errOtherRequest):
		f.x.Finish(rec, false, mismatch(f.x.Operation))
	case f.last == nil && once.CodeOf(err) == once.CodeFailed: // the store has refused the intent, or the answer of the store was lost
		if once.EffectOf(err) == once.EffectNotApplied {
			f.problem(notApplied)
			return
		}
		f.problem(notKnown)
	case err != nil && errors.As(err, &none):
		f.unanswered(none.a, err)
	default:
		f.x.Finish(f.w.replayed(rec), replayed, err)
	}
}

// omitted answers a replay of an operation whose answer was not stored. The receipt may contain the answer.
func (f *forward) omitted(rec store.Record) {
	ctx, cancel := f.x.Context()
	defer cancel()
	_, a, err := f.lookUp(ctx, f.rt.g.id(f.x.Operation))
	switch {
	case err != nil && !errors.Is(err, errOtherRequest):
		f.problem("This operation was executed, and its answer cannot be read now. Send the same request again, with the same idempotency key.")
	case a != nil:
		f.rt.write(f.w, a, wire.StatusReplayed)
	default:
		f.x.Finish(rec, true, nil)
	}
}

// answer sends the answer of the service, which is stored or cannot be stored.
func (f *forward) answer(a *answer) {
	switch {
	case f.rt.result(a).Kind == store.ResultOmitted && a.header == nil: // an earlier run has received the answer, and the answer is lost
		f.x.Finish(store.Record{Result: store.Result{Kind: store.ResultOmitted}}, true, nil)
		return
	// Its body may be incomplete, so no later caller may receive it.
	case a.Class == classUnknownBody:
		f.rt.write(f.w, a, wire.StatusOmitted)
	case a.fromReceipt:
		f.rt.write(f.w, a, wire.StatusReplayed)
	default:
		f.rt.write(f.w, a, wire.StatusStored)
	}
	a.abortIfCut()
}

// unanswered answers the client after a forward without a result to store.
func (f *forward) unanswered(a *answer, err error) {
	freed := once.EffectOf(err) == once.EffectNotApplied || errors.Is(err, lease.ErrVoided)
	switch {
	case a.Class == classRefused, errors.Is(err, lease.ErrVoided) && a.isAnswered():
		status := ""
		if freed {
			status = wire.StatusNotStored
		}
		f.rt.write(f.w, a, status)
		a.abortIfCut()
	case once.CodeOf(err) == once.CodeUnknown:
		f.x.Finish(store.Record{}, false, err)
	case freed:
		f.problem(notApplied)
	default:
		f.problem(notKnown)
	}
}

const (
	retryAfter = time.Second // the pause after which a client may ask again

	notApplied = "Nothing was applied. Send the same request again, with the same idempotency key."
	notKnown   = "It is not known whether this operation has taken effect. Send the same request again, with the same idempotency key."
)

func (f *forward) problem(detail string) {
	p := upstreamProblem(detail)
	p.RetryAfter = retryAfter
	f.x.WriteProblem(p)
}

// abortIfCut closes the connection to the client if the answer was cut, so that the client does not take the
// answer for complete.
func (a *answer) abortIfCut() {
	if a.cut {
		panic(http.ErrAbortHandler)
	}
}

// id returns the ID under which an engine stores op. The IDs of forwards are derived from this ID, also without
// an engine. The service finds its receipts by the IDs of forwards.
func (g *Gateway) id(op once.Operation) store.ID {
	id := store.ID{Scope: op.Scope, Key: op.Key}
	if g.cfg.Engine.HashKeys {
		id.Key = keyname.Hashed(op.Key)
	}
	return id
}

// giveUp stores a final answer for an operation whose outcome was unknown for too long. It reports whether a
// final answer is stored.
func (rt *route) giveUp(ctx context.Context, op once.Operation, grpc bool) bool {
	rec, err := rt.g.engine.ReadRecord(ctx, op)
	if err != nil || rec.State != store.StateUnknown || time.Since(rec.Since) < rt.FailAfter {
		// Another request may have stored the final answer meanwhile.
		return err == nil && rec.State == store.StateDone
	}
	id := rt.g.id(op)
	progress, err := lease.ProgressOf(id, rec)
	if err != nil {
		return false
	}
	return lease.Resolve(ctx, rt.g.cfg.Store, id, lease.Resolution{CallID: progress.CallID, Answer: finalUnknown(grpc)}) == nil
}

// ownReceipt looks for the receipt of a request whose outcome is unknown. If the receipt exists, ownReceipt
// answers the request and stores the answer. It reports whether it has answered. Outcomes that a [lease.Check]
// finds out do not come here.
func (f *forward) ownReceipt(ctx context.Context) bool {
	if f.rt.OnUnknown != PolicyCheck {
		return false
	}
	op := f.x.Operation
	id := f.rt.g.id(op)
	rec, err := f.rt.g.engine.ReadRecord(ctx, op)
	if err != nil || rec.State != store.StateUnknown || rec.Checkable && f.witness.trusts(ctx) { // in this case a Check asks for the receipt from time to time
		return false
	}
	progress, err := lease.ProgressOf(id, rec)
	if err != nil || progress.Call == nil {
		return false
	}
	a, err := f.look(ctx, progress.Call.Key)
	if err != nil || a == nil {
		return false
	}
	if res := f.rt.result(a); res.Kind == store.ResultValue { // an answer that cannot be stored is read from the receipt by each retry
		// An error is ignored: the next retry reads the receipt again.
		_ = lease.Resolve(ctx, f.rt.g.cfg.Store, id, lease.Resolution{CallID: progress.CallID, Answer: &res})
	}
	f.rt.write(f.w, a, wire.StatusReplayed)
	return true
}

// Handlers returns the handlers for a [lease.Completer] whose field AskOnly is true. On routes with PolicyCheck,
// the handlers look for the receipts of operations whose outcome is unknown, even if no client sends the request
// of the operation again.
func (g *Gateway) Handlers() lease.Handlers {
	handlers := lease.Handlers{}
	for _, rt := range g.routes {
		if rt.OnUnknown != PolicyCheck {
			continue
		}
		ask := func(ctx context.Context, op once.Operation) error {
			_, _, err := g.engine.Exec(ctx, op, rt.newForward(op).run)
			return err
		}
		for method := range rt.methods {
			handlers[g.named(method, rt.Pattern)] = ask
		}
	}
	return handlers
}
