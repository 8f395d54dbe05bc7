package held

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// Owner holds a record, or will claim it. The heart may call its methods at the same time as the owner. The writes of the owner
// are sequential.
type Owner struct {
	ID    store.ID
	Nonce []byte // only this owner uses it

	// Claim contains the fields that the first write adds to an absent record.
	Claim Claim

	ops     store.Operations
	heart   *Heart
	acquire time.Duration // how long a write may wait for a connection

	mu      sync.Mutex
	fence   int64     // 0: the owner has claimed nothing yet
	writing int       // the number of running writes, each of which may increase the fence
	locked  bool      // a transaction of the owner has written the record, and has not ended
	since   time.Time // when the record was first stored as running
	renewed time.Time // when the last successful write or renewal was sent
	closed  bool      // the owner writes nothing more
	taken   bool      // another owner has taken the record over

	ended context.Context //nolint:containedctx // ends when the lease is lost
	end   context.CancelFunc
}

// Claim contains the fields that a record keeps after its first write.
type Claim struct {
	Fingerprint, Request []byte
	Trace, Name          string
	StaleAfter           time.Time
}

// NewOwner returns an owner of id that has claimed nothing. acquire is how long each of its writes may wait for a connection.
func (h *Heart) NewOwner(id store.ID, claim Claim, acquire time.Duration) *Owner {
	o := &Owner{ID: id, Nonce: NewNonce(), Claim: claim, ops: h.ops, heart: h, acquire: acquire}
	o.ended, o.end = context.WithCancel(context.Background())
	return o
}

// NewNonce returns a random nonce.
func NewNonce() []byte {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	return nonce
}

// Fence returns the fence of the record after the owner's last write, or 0 if the owner has claimed nothing.
func (o *Owner) Fence() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fence
}

// Under completes a change, so that only this owner can make it. The change expects the record of the owner's previous write. A
// takeover has its own expectation, and stays as it is.
func (o *Owner) Under(c store.Change) store.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Expect.Fence > 0 { // a takeover expects the fence of another owner
		return c
	}
	if o.fence == 0 {
		c.Next.Fence = 1
		c.Next.Fingerprint, c.Next.Request, c.Next.Trace, c.Next.Name = o.Claim.Fingerprint, o.Claim.Request, o.Claim.Trace, o.Claim.Name
		c.StaleAfter = o.Claim.StaleAfter
		return c
	}
	c.Expect, c.KeepRequest = store.Expect{Fence: o.fence, Nonce: o.Nonce}, true
	if c.Next.State != store.StateAbsent {
		c.Next.Fence = o.fence + 1
	}
	return c
}

// Writing says that a write is running, until done is called.
func (o *Owner) Writing(sent time.Time) (done func()) {
	o.mu.Lock()
	before := o.fence
	o.writing++
	o.mu.Unlock()
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.writing--
		if o.fence != before { // the write was applied, and has renewed the lease, too
			o.renewed = sent
		}
	}
}

// Lock says whether a transaction of the owner has written the record. Until this transaction ends, no other statement can write
// the record.
func (o *Owner) Lock(locked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.locked = locked
}

// Adopt sets the stored record of a write, and starts the renewal of its lease. It does not renew the lease of a closed owner,
// even if a write ends after Close.
func (o *Owner) Adopt(next store.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fence = next.Fence
	if next.State != store.StateRunning || o.closed || !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	o.renewed = o.since
	o.heart.add(o)
}

// Lose ends the work of the owner. If taken is true, another owner has the record; otherwise another owner may have it.
func (o *Owner) Lose(taken bool) {
	o.mu.Lock()
	o.taken = o.taken || taken
	o.mu.Unlock()
	o.heart.remove(o)
	o.end()
}

// Close ends the renewals. It reports whether the lease is lost, and whether another owner has taken the record.
func (o *Owner) Close() (lost, taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.heart.remove(o)
	lost = o.ended.Err() != nil
	o.end()
	return lost, o.taken
}

// IsClosed reports whether Close was called.
func (o *Owner) IsClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// HasEnded reports whether the lease is lost or the owner is closed.
func (o *Owner) HasEnded() bool { return o.ended.Err() != nil }

// Holds reports whether the owner still has the lease. The process may have stood still for longer than the lease lasts, so that
// another owner has taken the record over, and the heart has not noticed it yet. In this case Holds renews the lease, or ends the
// work of the owner.
func (o *Owner) Holds(ctx context.Context) bool {
	h := o.heart
	if hold, _, _ := o.hold(h.maxDuration); o.isOverdue(h.ttl) && !o.HasEnded() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.ttl)
		defer cancel()
		h.renew(ctx, h.renewer, []store.Hold{hold}, map[owned]*Owner{ownedBy(hold): o})
	}
	return !o.HasEnded()
}

// isOverdue reports whether the owner has claimed its record, and has not renewed the lease for longer than ttl.
func (o *Owner) isOverdue(ttl time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero() && time.Since(o.renewed) > ttl
}

// Ended returns a channel that is closed when the lease is lost or the owner is closed.
func (o *Owner) Ended() <-chan struct{} { return o.ended.Done() }

// OnEnd makes f run in a separate goroutine when the lease is lost or the owner is closed. stop prevents this, and reports whether
// f will not be called.
func (o *Owner) OnEnd(f func()) (stop func() bool) { return context.AfterFunc(o.ended, f) }

// isOwn reports whether c itself has written the record with which c conflicts: every write of an owner increases the fence
// under the owner's nonce.
func isOwn(rec store.Record, c store.Change) bool {
	if c.Next.State == store.StateAbsent {
		return rec.State == store.StateAbsent
	}
	return rec.State != store.StateAbsent && rec.Fence == c.Next.Fence && bytes.Equal(rec.Nonce, c.Next.Nonce)
}
