package memstore

import (
	"slices"
	"time"

	"github.com/oncelib/once/store"
)

// row is a record as the store keeps it. A row is never changed, only replaced.
type row struct {
	rec          store.Record
	lease, until time.Time // zero: the row has no lease, or does not expire
}

// newRow returns the row that c writes in place of old. old is nil if no row exists.
func newRow(c *store.Change, old *row, now time.Time) *row {
	r := &row{rec: detach(c.Next)}
	r.rec.LeaseExpired, r.rec.Since = false, now
	// The record is the same operation, so it keeps the time of its first write.
	if old != nil {
		r.rec.Since = old.rec.Since
		if c.KeepRequest {
			r.rec.Fingerprint, r.rec.Request, r.rec.Trace, r.rec.Name = old.rec.Fingerprint, old.rec.Request, old.rec.Trace, old.rec.Name
		}
	}
	if c.Next.State == store.StateRunning && c.Lease > 0 {
		r.lease = now.Add(c.Lease)
	}
	if c.Next.State == store.StateDone && c.Retain > 0 && c.Retain != store.Forever {
		r.until = now.Add(c.Retain)
	}
	return r
}

func (r *row) expired(now time.Time) bool { return !r.until.IsZero() && !now.Before(r.until) }

func (r *row) lapsed(now time.Time) bool { return !r.lease.IsZero() && !now.Before(r.lease) }

func (r *row) record(now time.Time) store.Record {
	rec := detach(r.rec)
	rec.LeaseExpired = r.lapsed(now)
	return rec
}

// detach returns a copy of rec with bytes of its own, all in one allocation. So a caller that changes its slices does not
// change a row, and a row does not change the caller's slices.
func detach(rec store.Record) store.Record {
	parts := [...]*[]byte{&rec.Fingerprint, &rec.Result.Body, &rec.Nonce, &rec.Request, &rec.Data}
	n := 0
	for _, p := range parts {
		n += len(*p)
	}
	room := make([]byte, 0, n)
	for _, p := range parts {
		if *p == nil {
			continue
		}
		from := len(room)
		room = append(room, *p...)
		// The capacity ends with the part: an append to one part must not overwrite the next.
		*p = room[from:len(room):len(room)]
	}
	rec.Result.Header = slices.Clone(rec.Result.Header)
	return rec
}
