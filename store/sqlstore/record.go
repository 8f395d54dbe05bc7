package sqlstore

import (
	"slices"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// row is a record, and whether the retention of the record has ended.
type row struct {
	store.Record
	expired bool
}

// live returns the record as other packages see it: an expired record is absent, and keeps its nonce.
func (r row) live() store.Record {
	switch {
	case r.State == store.StateAbsent:
		return store.Record{}
	case r.expired:
		return store.Record{Nonce: r.Nonce}
	}
	return r.Record
}

// scan reads the columns of dialect.read. The parameter front receives the columns before them.
func scan(from interface{ Scan(dest ...any) error }, front ...any) (r row, err error) {
	var stored []byte
	dest := slices.Concat(front, []any{&r.State, &r.Fence, &r.Nonce, &r.Fingerprint, &r.Result.Status, &r.Result.Kind, &stored,
		&r.Result.Body, &r.Request, &r.Trace, &r.Name, &r.RecoveryPoint, &r.CallStarted, &r.Data, &r.LeaseExpired, (*dialect.Time)(&r.Since), &r.expired})
	if err = from.Scan(dest...); err != nil {
		return r, err
	}
	// The lease of a finished operation has no meaning.
	r.LeaseExpired = r.LeaseExpired && r.State == store.StateRunning
	err = head.Decode(stored, &r.Result)
	return r, err
}

// fields returns the values of the record that c writes, with its lease and its retention. All databases have the fields
// in this order.
func fields(c store.Change) []any {
	n := c.Next
	stored := head.Encode(&n.Result)
	var lease, retain any
	switch n.State { //nolint:exhaustive // the others have neither
	case store.StateRunning:
		lease = millis(c.Lease)
	case store.StateDone:
		retain = millis(c.Retain)
	}
	if c.KeepRequest {
		return []any{int64(n.State), n.Fence, n.Nonce, int64(n.Result.Status), int64(n.Result.Kind), stored, n.Result.Body,
			n.RecoveryPoint, n.CallStarted, n.Data, lease, retain}
	}
	return []any{int64(n.State), n.Fence, n.Nonce, n.Fingerprint, int64(n.Result.Status), int64(n.Result.Kind), stored, n.Result.Body,
		n.Request, text(n.Trace), text(n.Name), n.RecoveryPoint, n.CallStarted, n.Data, lease, retain}
}

// text returns s for the database: NULL if s is empty.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// millis returns d in milliseconds for the database: NULL if d means no limit.
func millis(d time.Duration) any {
	if d == 0 || d == store.Forever {
		return nil
	}
	return float64(d) / float64(time.Millisecond)
}
