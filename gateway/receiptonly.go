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

// flights are the running forwards of a gateway without a store: duplicates wait for them.
type flights struct {
	mu  sync.Mutex
	all map[store.ID]*flight
}

type flight struct {
	fingerprint once.Fingerprint
	ended       chan struct{}
	a           *answer // the answer for duplicates, or nil
}

// join returns the flight of an operation; leads says that the caller is to end it.
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

// withReceipts answers a request by the receipts of the service alone: the primary key of the receipt protects the operation, so the gateway can
// forward the request as often as it comes, always under one ID.
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
	default: // even if nothing was sent: an earlier forward may be running
		f.problem(notKnown)
	}
}

// leads finds or makes the answer for which duplicates wait.
func (f *forward) leads(id store.ID, fl *flight) (a *answer, status string, err error) {
	f.release = sync.OnceFunc(func() { f.rt.g.flights.end(id, fl) })
	defer f.release() // also if it panics
	ctx := context.WithoutCancel(f.r.Context())
	operation, a, err := f.lookUp(ctx, id)
	status = wire.StatusReplayed
	if err == nil && a == nil && f.isForgotten() {
		return nil, "", errForgotten
	}
	if err == nil && a == nil {
		a, status, err = f.decide(ctx, operation)
	}
	if err == nil && !a.streamed && (status == wire.StatusReplayed || status == wire.StatusStored) {
		shared := *a
		shared.header = f.rt.kept(a.header)
		fl.a = &shared
	}
	return a, status, err
}

// isForgotten reports whether the operation was first sent, by the client's own statement, so long ago that its receipt may have been swept.
func (f *forward) isForgotten() bool {
	first, kept := f.x.Operation.Attempt.FirstSent, f.rt.g.cfg.ReceiptsKept
	return !first.IsZero() && time.Since(first) >= kept-kept/10
}

// follow waits for the answer of the leader of a flight, as long as the route lets a duplicate wait.
func (f *forward) follow(fl *flight) {
	ctx, cancel := f.x.Context()
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, f.rt.Wait)
	defer stop()
	select {
	case <-fl.ended:
	case <-ctx.Done():
	}
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

// lookUp returns the ID of the operation and the answer in its receipt, if it exists.
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

// find returns the receipt of an operation, and the ID that it has or would have. IDs with a tombstone are from forwards under PolicyCheck.
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

// ask waits until the route may ask the receipts.
func (rt *route) ask(ctx context.Context) (leave func(), err error) {
	select {
	case rt.asking <- struct{}{}:
		return func() { <-rt.asking }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the route already asks for %d receipts, which is the maximum: %w", cap(rt.asking), ctx.Err())
	}
}

func (rt *route) lookAt(ctx context.Context, operation string) (Receipt, bool, error) {
	leave, err := rt.ask(ctx)
	if err != nil {
		return Receipt{}, false, err
	}
	defer leave()
	return rt.g.cfg.Receipts.Look(ctx, operation)
}

// receiptStore is the store of a route without a store: an operation with a receipt is done. It executes nothing.
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

// decide forwards the request, and reads the receipt unless the answer is a success: the service may have met its own receipt, or have failed after
// its commit.
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
	return a, "", nil // it may still commit: refusals are temporary, and an earlier forward may be running
}
