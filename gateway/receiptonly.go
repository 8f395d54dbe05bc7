package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// flights has the running forwards of a gateway without a store. Duplicates wait for these forwards.
type flights struct {
	mu  sync.Mutex
	all map[store.ID]*flight
}

type flight struct {
	fingerprint once.Fingerprint
	ended       chan struct{}
	a           *answer // the answer for duplicates, or nil
}

// join returns the flight of an operation. The result leads says that the caller began the flight, and must end
// it.
func (fs *flights) join(id store.ID, fingerprint once.Fingerprint) (fl *flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fl := fs.all[id]; fl != nil {
		return fl, false
	}
	if fs.all == nil {
		fs.all = map[store.ID]*flight{}
	}
	fl = &flight{fingerprint: fingerprint, ended: make(chan struct{})}
	fs.all[id] = fl
	return fl, true
}

func (fs *flights) end(id store.ID, fl *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, id)
	close(fl.ended)
}

// withReceipts answers a request with only the receipts of the service. The primary key of the receipt protects
// the operation, so the gateway may forward the request as often as it arrives, always under the same ID.
func (f *forward) withReceipts() {
	op := f.x.Operation
	id := f.rt.g.id(op)
	fl, leads := f.rt.g.flights.join(id, op.Fingerprint)
	switch {
	case leads:
	case fl.fingerprint != op.Fingerprint:
		f.x.Finish(store.Record{}, false, mismatch(op))
		return
	default:
		f.follow(fl)
		return
	}
	a, status, err := f.leads(id, fl)
	switch {
	case errors.Is(err, errOtherRequest):
		f.x.Finish(store.Record{}, false, mismatch(op))
	case errors.Is(err, errForgotten):
		f.x.Finish(store.Record{}, false, &once.Error{Code: once.CodeStale, Effect: once.EffectNotApplied, Scope: op.Scope, Key: op.Key, Err: err})
	case err != nil:
		f.x.Finish(store.Record{}, false, &once.Error{Code: once.CodeUnavailable, Effect: once.EffectInDoubt, Scope: op.Scope, Key: op.Key, Err: err})
	case a.streamed:
		a.abortIfCut()
	case status != "" || a.isAnswered():
		f.rt.write(f.w, a, status)
		a.abortIfCut()
	default: // also if nothing was sent now, because an earlier forward may be running
		f.problem(notKnown)
	}
}

// leads finds the answer in the receipt, or forwards the request. Duplicates wait for this answer.
func (f *forward) leads(id store.ID, fl *flight) (a *answer, status string, err error) {
	f.release = sync.OnceFunc(func() { f.rt.g.flights.end(id, fl) })
	defer f.release() // also after a panic
	// The client may disconnect. The duplicates wait for the answer nevertheless.
	ctx := context.WithoutCancel(f.r.Context())
	operation, a, err := f.lookUp(ctx, id)
	status = wire.StatusReplayed
	if err == nil && a == nil && f.isForgotten() {
		return nil, "", errForgotten
	}
	if err == nil && a == nil {
		a, status, err = f.decide(ctx, operation)
	}
	// Duplicates may receive only an answer that a later caller could receive as well.
	if err == nil && !a.streamed && (status == wire.StatusReplayed || status == wire.StatusStored) {
		shared := *a
		shared.header = f.rt.kept(a.header)
		fl.a = &shared
	}
	return a, status, err
}

// isForgotten reports whether the receipt of the operation may have been swept, because the client has first
// sent the operation long ago, as the client itself says.
func (f *forward) isForgotten() bool {
	first, kept := f.x.Operation.Attempt.FirstSent, f.rt.g.cfg.ReceiptsKept
	return !first.IsZero() && time.Since(first) >= kept-kept/10
}

// follow waits for the answer of the forward that leads a flight, as long as the route lets a duplicate wait.
func (f *forward) follow(fl *flight) {
	ctx, cancel := f.x.Context()
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, f.rt.Wait)
	defer stop()
	select {
	case <-fl.ended:
	case <-ctx.Done():
	}
	// Both may have happened at the same time. An answer is better than a refusal.
	select {
	case <-fl.ended:
		if fl.a != nil {
			f.rt.write(f.w, fl.a, wire.StatusReplayed)
			return
		}
	default:
	}
	op := f.x.Operation
	f.x.Finish(store.Record{}, false, &once.Error{Code: once.CodeInFlight, Effect: once.EffectNotApplied, Scope: op.Scope, Key: op.Key, After: retryAfter})
}

// lookUp returns the ID of the operation, and the answer in its receipt if the receipt exists.
func (f *forward) lookUp(ctx context.Context, id store.ID) (operation string, _ *answer, err error) {
	operation, r, found, err := f.rt.find(ctx, id)
	switch {
	case err != nil || !found:
		return operation, nil, err
	case f.isOfAnother(r):
		return operation, nil, errOtherRequest
	}
	return operation, f.rt.ofReceipt(r), nil
}

// find returns the receipt of an operation, and the ID that the receipt has or would have. It passes over IDs
// with a tombstone, which come from forwards under PolicyCheck.
func (rt *route) find(ctx context.Context, id store.ID) (operation string, r Receipt, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for voided := 0; ; voided++ {
		operation = lease.Key(id.Scope, id.Key, wire.ForwardPhase, voided)
		if r, found, err = rt.lookAt(ctx, operation); err != nil || !found || !r.Tombstone {
			return operation, r, found, err
		}
	}
}

// ask waits until the route may call Receipts. A call waits for its own route first, so that many calls of one route do not wait in front of a call of
// another route.
func (rt *route) ask(ctx context.Context) (leave func(), err error) {
	if err := take(ctx, rt.asking, "the route"); err != nil {
		return nil, err
	}
	if err := take(ctx, rt.g.asking, "the gateway"); err != nil {
		<-rt.asking
		return nil, err
	}
	return rt.leave, nil
}

func take(ctx context.Context, places chan struct{}, who string) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s already asks for %d receipts, which is the maximum: %w", who, cap(places), ctx.Err())
	}
}

// askNow is ask for a call that waits for no other call.
func (rt *route) askNow() (leave func(), ok bool) {
	select {
	case rt.asking <- struct{}{}:
	default:
		return nil, false
	}
	select {
	case rt.g.asking <- struct{}{}:
		return rt.leave, true
	default:
		<-rt.asking
		return nil, false
	}
}

func (rt *route) leave() {
	<-rt.g.asking
	<-rt.asking
}

func (rt *route) lookAt(ctx context.Context, operation string) (Receipt, bool, error) {
	leave, err := rt.ask(ctx)
	if err != nil {
		return Receipt{}, false, err
	}
	defer leave()
	return rt.g.cfg.Receipts.Look(ctx, operation)
}

// receiptStore is the store of a gateway without a store. An operation with a receipt counts as done.
// receiptStore executes nothing.
type receiptStore struct {
	*memstore.Store

	rt *route
}

// Read implements [store.Operations].
func (s receiptStore) Read(ctx context.Context, id store.ID) (rec store.Record, err error) {
	if _, _, found, err := s.rt.find(ctx, id); err != nil || !found {
		return rec, err
	}
	rec.State = store.StateDone
	return rec, nil
}

// decide forwards the request. Unless the answer is a success, it then reads the receipt: the service may have
// found its own receipt, or may have failed after its commit.
func (f *forward) decide(ctx context.Context, operation string) (a *answer, status string, err error) {
	a = f.send(ctx, operation)
	if a.streamed || a.Class == classCompleted && a.said < http.StatusMultipleChoices {
		return a, wire.StatusStored, nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	r, found, err := f.rt.lookAt(ctx, operation)
	switch {
	case err != nil:
		return a, "", err
	case found && f.isOfAnother(r):
		return a, "", errOtherRequest
	case found && !r.Tombstone:
		return f.rt.ofReceipt(r), wire.StatusReplayed, nil
	}
	return a, "", nil // the operation may still commit: a refusal is temporary, and an earlier forward may be running
}
