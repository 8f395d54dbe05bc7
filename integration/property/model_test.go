package property

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// retention of a record whose caller did not say otherwise.
const retention = 72 * time.Hour

// operation is what must be read of one operation, and what could be read before.
type operation struct {
	id     store.ID
	rec    store.Record  // but for Lapsed
	lease  time.Duration // by the store's clock; 0: none
	until  time.Duration // likewise
	claims int           // of open transactions
	epoch  int           // grows with every expiry
	fence  int64         // the highest that was ever given out
	past   []*version

	gone      *version      // has expired, and is there again if the clock goes back
	goneUntil time.Duration // from where
}

// version is a record for as long as it could be read.
type version struct {
	rec  store.Record
	run  *run // whose answer it holds
	to   int  // the step at which it ended
	at   time.Time
	open bool

	expired bool // that is how it has ended
}

// run is one run of a handler, or one piece of leased work.
type run struct {
	name      string
	op        *operation
	by        *call // nil: leased work, or a rival
	retain    time.Duration
	fp        []byte
	ending    ending
	effect    bool // has been seen in the store
	epoch     int  // then
	recorded  bool // its answer has been seen in the store
	forbidden string
}

// spoilt is a run whose handler has committed by itself: its effect has no record.
func (r *run) spoilt() bool { return r.ending == committing }

// forbid notes what was said about r that is false if it ever takes effect.
func (r *run) forbid(why string) {
	if r.forbidden == "" {
		r.forbidden = why
	}
}

// taken is false if r contradicts what was said about it.
func (r *run) taken() error {
	if (r.effect || r.recorded) && r.forbidden != "" {
		return fmt.Errorf("run %s took effect (effect %t, record %t), but %s", r.name, r.effect, r.recorded, r.forbidden)
	}
	return nil
}

func (o *operation) lapsed(now time.Duration) bool {
	return o.rec.State == store.StateRunning && o.lease != 0 && now >= o.lease
}

// become replaces the record.
func (o *operation) become(rec store.Record, r *run, step int) {
	if n := len(o.past); n > 0 && o.past[n-1].open {
		o.past[n-1].open, o.past[n-1].to, o.past[n-1].at = false, step, time.Now()
	}
	o.gone = nil
	if o.rec = rec; rec.State != store.StateAbsent {
		o.past = append(o.past, &version{rec: rec, run: r, open: true})
	}
	o.lease, o.until = 0, 0
	o.fence = max(o.fence, rec.Fence)
}

// since returns what could be read of o at some time since step.
func (o *operation) since(step int, is func(*version) bool) bool {
	for _, v := range o.past {
		if (v.open || v.to >= step) && is(v) {
			return true
		}
	}
	return false
}

// said returns what c may have been told of o: what could be read since it began, or,
// from a cache, shortly before.
func (o *operation) said(c *call, is func(*version) bool) bool {
	if o.since(c.began, is) {
		return true
	}
	for _, v := range o.past {
		if c.node.w.caches && !c.asked && !v.open && time.Since(v.at) < cacheFor && is(v) {
			c.node.w.meet(metCachedStale)
			return true
		}
	}
	return false
}

// allows is the truth table of Swap.
func (o *operation) allows(ch *store.Change, now time.Duration) bool {
	switch {
	case o.rec.State == store.StateAbsent:
		return ch.Expect.Fence == 0 && o.claims == 0
	case o.rec.State == store.StateDone, ch.Expect.Fence != o.rec.Fence:
		return false
	}
	return !ch.Expect.LeaseExpired || o.lapsed(now)
}

// applied is what an applied Swap of leased work makes of o.
func (o *operation) applied(w *world, ch *store.Change, r *run) {
	o.become(ch.Next, r, w.step)
	switch ch.Next.State {
	case store.StateRunning:
		o.lease = w.now + ch.Lease
	case store.StateDone:
		o.until = w.now + ch.Retain
	}
}

// differs says in what a record that was read is not the one that it must be.
func (o *operation) differs(rec store.Record, now time.Duration) string {
	want := o.rec
	switch {
	case rec.State != want.State:
		return fmt.Sprintf("it is %s, not %s: now is %v, it is kept until %v", rec.State, want.State, now, o.until)
	case rec.Fence != want.Fence:
		return fmt.Sprintf("its fence is %d, not %d", rec.Fence, want.Fence)
	case rec.LeaseExpired != o.lapsed(now):
		return fmt.Sprintf("lapsed is %t: the lease ends at %v, now is %v", rec.LeaseExpired, o.lease, now)
	case !bytes.Equal(rec.Nonce, want.Nonce), !bytes.Equal(rec.Fingerprint, want.Fingerprint),
		!bytes.Equal(rec.Result.Body, want.Result.Body), rec.Result.Kind != want.Result.Kind, rec.Result.Status != want.Result.Status,
		rec.RecoveryPoint != want.RecoveryPoint, rec.CallStarted != want.CallStarted, !bytes.Equal(rec.Data, want.Data):
		return fmt.Sprintf("it has changed from %+v", want)
	}
	return ""
}

// nameIn returns the name of the run whose answer res is.
func nameIn(res store.Result) (name string) {
	if res.Kind == store.ResultFailure {
		var f once.Failure
		_ = json.Unmarshal(res.Body, &f)
		return f.Code
	}
	_ = json.Unmarshal(res.Body, &name)
	return name
}

// kept reports whether rec is one that has expired, and that a caller that had lost the answer to
// its commit has kept anew, though others may have come and gone meanwhile.
func (o *operation) kept(r *run, rec store.Record) bool {
	return r != nil && r.by != nil && r.by.lost && slices.ContainsFunc(o.past, func(v *version) bool {
		return v.expired && v.run == r && bytes.Equal(v.rec.Nonce, rec.Nonce)
	})
}

// look holds what is in the store against the model. A new record is only believed if
// it is the answer of a run that may have one.
func (o *operation) look(w *world) error {
	rec, err := w.db.Read(w.ctx, o.id)
	if err != nil {
		return err
	}
	if o.gone != nil && w.now < o.goneUntil {
		until := o.goneUntil
		o.become(o.gone.rec, o.gone.run, w.step)
		o.until = until
	}
	if o.rec.State == store.StateDone && o.until != 0 && w.now >= o.until {
		last, until := o.past[len(o.past)-1], o.until
		o.become(store.Record{Nonce: o.rec.Nonce}, nil, w.step)
		o.gone, o.goneUntil, last.expired = last, until, true
		o.epoch++
		w.meet(metExpired)
	}
	if o.rec.State != store.StateAbsent || rec.State != store.StateDone {
		if d := o.differs(rec, w.now); d != "" {
			return fmt.Errorf("%s: %s: %+v", o.id.Key, d, rec)
		}
		return nil
	}
	r := w.runs[nameIn(rec.Result)]
	if o.kept(r, rec) {
		w.meet(metKeptAnew)
		o.become(rec, r, w.step)
		o.until = w.now + r.retain
		return nil
	}
	switch {
	case r == nil || r.op != o:
		return fmt.Errorf("%s: a record that no run can have made: %+v", o.id.Key, rec)
	case r.recorded:
		return fmt.Errorf("%s: the answer of run %s is recorded twice", o.id.Key, r.name)
	case rec.Fence != 1 || len(rec.Nonce) != 16 || !bytes.Equal(rec.Fingerprint, r.fp):
		return fmt.Errorf("%s: not the record of run %s: %+v", o.id.Key, r.name, rec)
	}
	if r.recorded = true; r.by != nil && r.by.over {
		w.meet(metDoubtApplied)
	}
	o.become(rec, r, w.step)
	o.until = w.now + r.retain
	return nil
}
