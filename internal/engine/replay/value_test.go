package replay

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// FuzzDamagedValueIsAnError: what is written is read again, and what is damaged is an error and no other result.
func FuzzDamagedValueIsAnError(f *testing.F) {
	f.Add([]byte("fingerprint"), "trace", "Content-Type", "text/plain", []byte("body\x00\xff"), 201, true, []byte{})
	f.Add([]byte{}, "", "", "", []byte{}, 0, false, []byte("\x01\x02\x00\x00aaaabbbbbbbb\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, fingerprint []byte, trace, name, value string, body []byte, status int, rolledBack bool, raw []byte) {
		if rec, until, err := Decode(raw); err == nil {
			if again, _, err := Decode(Encode(&rec, until)); err != nil || !reflect.DeepEqual(again, rec) {
				t.Errorf("%q is read as %+v, and that as %+v, %v", raw, rec, again, err)
			}
		}
		if strings.Contains(name+value, "\n") || strings.Contains(name, ": ") || name == "Once-Writes" || status < 0 || status > 999 {
			return
		}
		rec := store.Record{State: store.StateDone, Fence: 1, Fingerprint: fingerprint, Trace: trace, Result: store.Result{
			Kind: store.ResultFailure, Status: status, Body: body, RolledBack: rolledBack, Header: []store.Field{{Name: name, Value: value}},
		}}
		until := time.UnixMilli(1767225600123)
		b := Encode(&rec, until)
		got, end, err := Decode(bytes.Clone(b))
		if err != nil || !end.Equal(until) || !reflect.DeepEqual(got, rec) {
			t.Errorf("%+v is read as %+v until %v, %v", rec, got, end, err)
		}
		for n := range min(len(b), 60) - len(body) {
			if rec, _, err := Decode(b[:n]); err == nil && len(rec.Result.Body) > 0 {
				t.Errorf("the first %d bytes are read as %+v", n, rec)
			}
		}
	})
}

// TestValueOfAnotherVersion is an error, so that it is missed.
func TestValueOfAnotherVersion(t *testing.T) {
	b := Encode(&store.Record{State: store.StateDone}, time.Now())
	b[0]++
	if _, _, err := Decode(b); err == nil {
		t.Error("it was read")
	}
}
