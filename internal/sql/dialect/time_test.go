package dialect

import (
	"database/sql"
	"testing"
	"time"

	"github.com/oncelib/once/store/sqlplane"
)

var _ sql.Scanner = (*Time)(nil)

func TestTimeScan(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 30, 0, 123_000_000, time.UTC)
	precise := at.Add(456 * time.Microsecond) // a sweeper's mark must not be rounded
	for _, c := range []struct {
		stored any
		want   time.Time
	}{
		{nil, time.Time{}},
		{precise.In(time.FixedZone("", 3600)), precise},
		{at.UnixMilli(), at},
		{float64(at.UnixMilli()) + 0.5, at},
		{[]byte("1774747800123"), at},
	} {
		got := time.Now() // which NULL overwrites
		if err := (*Time)(&got).Scan(c.stored); err != nil || !got.Equal(c.want) || got.Location() != time.UTC {
			t.Errorf("%T %v: %v, %v, want %v", c.stored, c.stored, got, err, c.want)
		}
	}
	for _, stored := range []any{"2026-03-29", []byte("2026-03-29"), true} {
		if err := new(Time).Scan(stored); err == nil {
			t.Errorf("%v is scanned as a time", stored)
		}
	}
}

func TestStoredTime(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 30, 0, 123_456_000, time.UTC)
	for d, want := range map[sqlplane.Dialect]any{sqlplane.PostgreSQL: at, sqlplane.MySQL: int64(1774747800123), sqlplane.SQLite: int64(1774747800123)} {
		if got := StoredTime(d, at); got != want {
			t.Errorf("%s: %v, want %v", d, got, want)
		}
		if got := StoredTime(d, time.Time{}); got != nil {
			t.Errorf("%s: the zero time is stored as %v", d, got)
		}
	}
}
