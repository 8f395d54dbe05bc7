package outbox

import (
	"testing"

	"github.com/oncelib/once/store/sqlplane"
)

// BenchmarkAddToAnOutbox is what a message costs before it is sent.
func BenchmarkAddToAnOutbox(b *testing.B) {
	s := &fakeSQL{dialect: sqlplane.PostgreSQL}
	box := New(s, Config{})
	b.ReportAllocs()
	for b.Loop() {
		s.appended = s.appended[:0]
		if err := box.Add(b.Context(), fakeTx{}, good()); err != nil {
			b.Fatal(err)
		}
	}
}
