package storetest

import (
	"cmp"
	"maps"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// testStored proves that the bytes of each scope are counted once, whatever the page size is, and that expired records do not count.
func testStored[TX any](t *testing.T, u *suite[TX]) {
	m, ok := dialect.Measurer(u.s)
	if !ok {
		t.Skip("the store does not implement upkeep.Measurer")
	}
	u.Advance(t, u.s, 2*time.Hour)
	u.sweepAll(t, u.s, nil)
	stored := func(limit int) map[string]int64 {
		t.Helper()
		found := map[string]int64{}
		for after, pages := (store.ID{}), 0; ; pages++ {
			list, next, err := m.Stored(bounded(t), after, limit)
			if err != nil || pages > 100 {
				t.Fatalf("Stored behind %+v: %d pages, %v", after, pages, err)
			}
			for _, s := range list {
				found[s.Scope] += s.Bytes
			}
			if next.IsZero() {
				return found
			}
			if cmp.Or(cmp.Compare(next.Scope, after.Scope), cmp.Compare(next.Key, after.Key)) <= 0 {
				t.Fatalf("the page after %+v ends at %+v, which is not later", after, next)
			}
			after = next
		}
	}
	before := stored(1000)
	want := maps.Clone(before)
	for _, of := range []struct {
		scope, key, body string
		header           []store.Field
	}{
		{"stored a", "1", "", nil},
		{"stored a", "2", string(make([]byte, 3000)), []store.Field{{Name: "Etag", Value: "x"}}},
		{"stored a", "3", "ü", nil},
		{"stored a ", "1", "0123456789", nil},
		{"stored ü", "1", "0123456789", nil},
	} {
		c := done(store.ID{Scope: of.scope, Key: of.key}, of.body)
		c.Next.Result.Header = of.header
		c.Next.Nonce = []byte("0123456789abcdef")
		u.swap(t, c)
		want[of.scope] += int64(upkeep.RecordSize + len(of.body))
		for _, f := range of.header {
			want[of.scope] += int64(len(f.Name) + len(f.Value) + 3)
		}
	}
	for _, limit := range []int{1, 2, 3, 1000} {
		if got := stored(limit); !maps.Equal(got, want) {
			t.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
	u.Advance(t, u.s, 2*time.Hour)
	for scope, bytes := range stored(2) {
		if bytes != before[scope] {
			t.Errorf("scope %s has %d stored bytes, although all its records have expired", scope, bytes)
		}
	}
}
