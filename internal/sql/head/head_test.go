package head_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// FuzzDamagedHeaderIsNoOther: what is written is read again, and what is damaged is never read as
// something else.
func FuzzDamagedHeaderIsNoOther(f *testing.F) {
	f.Add("Content-Type", "application/json", "X", "", []byte("A: b\n"))
	f.Add("", "", "a:", ": ", []byte("A: b"))
	f.Add("A", "b: c", "A", "\x00\xff\r", []byte("A:b\n"))
	f.Add("A", "b", head.Mark, "rolled back", []byte("Once-Writes: rolled back\nA: b\n"))
	f.Add("A", "b", head.Events, "x y", []byte("Once-Writes: rolled back\nOnce-Events: x y\nA: b\n"))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string, raw []byte) {
		var read store.Result
		if err := head.Decode(raw, &read); err == nil && !bytes.Equal(head.Encode(&read), raw) {
			t.Errorf("%q was read as %+v", raw, read)
		}
		if strings.Contains(n1+n2+v1+v2, "\n") || strings.Contains(n1, ": ") || strings.Contains(n2, ": ") || n1 == head.Mark || n1 == head.Events {
			return
		}
		for _, h := range [][]store.Field{nil, {{Name: n1, Value: v1}}, {{Name: n1, Value: v1}, {Name: n2, Value: v2}, {Name: n1, Value: v1}}} {
			for _, undone := range []bool{false, true} {
				for _, events := range [][]string{nil, {"e"}, {"e", "f"}} {
					var got store.Result
					err := head.Decode(head.Encode(&store.Result{Header: h, RolledBack: undone, Events: events}), &got)
					if err != nil || !slices.Equal(got.Header, h) || got.RolledBack != undone || !slices.Equal(got.Events, events) {
						t.Errorf("%q, rolled back %t, events %q was read as %+v, %v", h, undone, events, got, err)
					}
				}
			}
		}
	})
}

// TestRolledBackIsStoredAsBefore: binaries of before read and write the same bytes.
func TestRolledBackIsStoredAsBefore(t *testing.T) {
	const stored = "Once-Writes: rolled back\nContent-Type: text/plain\n"
	r := store.Result{Header: []store.Field{{Name: "Content-Type", Value: "text/plain"}}, RolledBack: true}
	if got := head.Encode(&r); string(got) != stored {
		t.Errorf("stored as %q", got)
	}
	var forgotten store.Result
	if err := head.Decode(head.Forgotten(), &forgotten); err != nil || !head.IsForgotten(&forgotten) || forgotten.RolledBack {
		t.Errorf("a forgotten result is read as %+v, %v", forgotten, err)
	}
}
