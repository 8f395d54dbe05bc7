package held

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// Owner holds a record, or is about to claim it. Its methods can be called concurrently with its heart's; its writes follow
// each other.
type Owner struct {
	ID    store.ID
	Nonce []byte // of this owner and no other

	// Claim has the fields that the first write adds to an absent record.
	Claim Claim

	ops     store.Operations
	heart   *Heart
	acquire time.Duration // that a write may wait for a connection

	mu      sync.Mutex
	fence   int64     // 0: nothing is claimed yet
	writing int       // writes that are under way: each may raise the fence
	locked  bool      // a transaction of the owner has written the record, and has not ended
	since   time.Time // when the record was first stored as running
	renewed time.Time // when the last write or renewal that has succeeded was sent
	closed  bool      // the owner writes no more
	taken   bool      // another owner has taken the record over

	ended context.Context //nolint:containedctx // when the lease is lost
	end   context.CancelFunc
}

// Claim has the fields that a record keeps from its first write on.
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

// NewNonce returns one that no other call has.
func NewNonce() []byte {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	return nonce
}

// Fence is the fence of the record after the owner's last write, 0 if the owner has claimed nothing.
func (o *Owner) Fence() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fence
}

// Under completes a change so that only the owner can make it, and makes it the next one's condition. A takeover, which has an
// expectation of its own, stays as it is.
func (o *Owner) Under(c store.Change) store.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Expect.Fence > 0 { // a takeover: it expects the fence of another owner
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

// Writing says that a write is under way, until done is called.
func (o *Owner) Writing(sent time.Time) (done func()) {
	o.mu.Lock()
	before := o.fence
	o.writing++
	o.mu.Unlock()
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.writing--
		if o.fence != before { // it was applied, and has renewed the lease, too
			o.renewed = sent
		}
	}
}

// Lock says whether a transaction of the owner has written the record, so that nothing else can write it until that is over.
func (o *Owner) Lock(locked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.locked = locked
}

// Adopt notes the stored record of a write, and has its lease renewed, if it has one. An owner that is closed is not renewed, also if a
// write has ended after that.
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

// Lose ends the owner's work: another owner has the record (taken), or may have it.
func (o *Owner) Lose(taken bool) {
	o.mu.Lock()
	o.taken = o.taken || taken
	o.mu.Unlock()
	o.heart.remove(o)
	o.end()
}

// Close ends the renewals. It reports how far the lease is lost.
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

// Ended returns a channel that is closed then.
func (o *Owner) Ended() <-chan struct{} { return o.ended.Done() }

// OnEnd has f called, in a goroutine of its own, then. stop ends that, and reports whether f will not be called.
func (o *Owner) OnEnd(f func()) (stop func() bool) { return context.AfterFunc(o.ended, f) }

// isOwn reports whether the record that c conflicts with is the one that c writes: every write of an owner raises
// the fence, under a nonce of its own.
func isOwn(rec store.Record, c store.Change) bool {
	if c.Next.State == store.StateAbsent {
		return rec.State == store.StateAbsent
	}
	return rec.State != store.StateAbsent && rec.Fence == c.Next.Fence && bytes.Equal(rec.Nonce, c.Next.Nonce)
}
