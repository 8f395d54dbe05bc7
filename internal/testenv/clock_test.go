//go:build linux

package testenv

import (
	"context"
	"strconv"
	"testing"
	"time"
)

// TestClockOfServersSteps steps the clocks of servers, forth and back, which new and old statements
// see at once.
func TestClockOfServersSteps(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql", "mariadb", "faketime")
	p, err := StartPostgres(t.Context(), PostgresConfig{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	m, err := StartMariaDB(t.Context(), MariaDBConfig{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	for _, c := range []struct {
		name  string
		set   func(time.Duration) error
		query func(ctx context.Context, database, sql string) (string, error)
		now   string
	}{
		{"postgres", p.SetClock, p.Query, "select extract(epoch from now())"},
		{"mysql", m.SetClock, m.Query, "select unix_timestamp(now(6))"},
	} {
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 1500 * time.Millisecond, 0} {
			if err := c.set(ahead); err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			text, err := c.query(t.Context(), c.name, c.now)
			seconds, parseErr := strconv.ParseFloat(text, 64)
			if err != nil || parseErr != nil {
				t.Fatalf("%s: %q, %v, %v", c.name, text, err, parseErr)
			}
			got := time.UnixMicro(int64(seconds*1e6)).Sub(before) - ahead
			if got < -10*time.Millisecond || got > time.Since(before)+10*time.Millisecond {
				t.Errorf("%s, %v ahead: its clock is wrong by %v", c.name, ahead, got)
			}
		}
	}
}
