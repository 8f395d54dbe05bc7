package replay

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// valueHead is the beginning of a result in a cache outside the process. After it come the parts whose lengths it contains,
// and then the body.
type valueHead struct {
	Version, State, Kind, _    uint8
	Status                     uint32
	Until                      int64 // in milliseconds since 1970
	Fingerprint, Trace, Header uint32
}

const valueVersion = 1 // a reader of another version finds no value

// Encode returns rec in the form for such a cache, valid until the given time. It contains only the fields that a replay needs.
func Encode(rec *store.Record, until time.Time) []byte {
	header := head.Encode(&rec.Result)
	b, _ := binary.Append(nil, binary.BigEndian, valueHead{ // it has no error: the type has a size
		Version: valueVersion, State: uint8(rec.State), Kind: uint8(rec.Result.Kind), Status: uint32(rec.Result.Status), Until: until.UnixMilli(), // of HTTP
		Fingerprint: uint32(len(rec.Fingerprint)), Trace: uint32(len(rec.Trace)), Header: uint32(len(header)), // far less: SharedCache has results of 1 MiB
	})
	return slices.Concat(b, rec.Fingerprint, []byte(rec.Trace), header, rec.Result.Body)
}

var errDamaged = errors.New("a value in the shared cache is damaged, or another version of once has written it")

// Decode reads the form that Encode returns. The record uses the memory of b.
func Decode(b []byte) (rec store.Record, until time.Time, err error) {
	var h valueHead
	n, err := binary.Decode(b, binary.BigEndian, &h)
	// The lengths come from outside the process, and must not exceed the value.
	if err != nil || h.Version != valueVersion || uint64(h.Fingerprint)+uint64(h.Trace)+uint64(h.Header) > uint64(len(b)-n) {
		return rec, until, errDamaged
	}
	b = b[n:]
	take := func(n uint32) (part []byte) {
		part, b = b[:n:n], b[n:]
		return part
	}
	rec = store.Record{State: store.State(h.State), Fence: 1, Fingerprint: take(h.Fingerprint), Trace: string(take(h.Trace))}
	rec.Result = store.Result{Kind: store.ResultKind(h.Kind), Status: int(h.Status)}
	if head.Decode(take(h.Header), &rec.Result) != nil {
		return store.Record{}, until, errDamaged
	}
	rec.Result.Body = b
	return rec, time.UnixMilli(h.Until), nil
}
