package once_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/store"
)

// FuzzHeader: what is written is read again, and what is damaged is never read as
// something else.
func FuzzHeader(f *testing.F) {
	f.Add("Content-Type", "application/json", "X", "", []byte("A: b\n"))
	f.Add("", "", "a:", ": ", []byte("A: b"))
	f.Add("A", "b: c", "A", "\x00\xff\r", []byte("A:b\n"))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string, raw []byte) {
		if h, err := store.DecodeHeader(raw); err == nil && !bytes.Equal(store.EncodeHeader(h), raw) {
			t.Errorf("%q was read as %q", raw, h)
		}
		if strings.Contains(n1+n2+v1+v2, "\n") || strings.Contains(n1, ": ") || strings.Contains(n2, ": ") {
			return
		}
		for _, h := range [][]store.Field{nil, {{Name: n1, Value: v1}}, {{Name: n1, Value: v1}, {Name: n2, Value: v2}, {Name: n1, Value: v1}}} {
			got, err := store.DecodeHeader(store.EncodeHeader(h))
			if err != nil || !slices.Equal(got, h) {
				t.Errorf("%q was read as %q, %v", h, got, err)
			}
		}
	})
}
