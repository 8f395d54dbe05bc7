//go:build linux

package testenv

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestStandbyTakesOver: what is committed is there after a failover, what the standby has not
// got is not, and a COMMIT waits for the standby.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql", "pg_basebackup")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	primary := startPostgres(t, nil)
	query(t, primary, "create table rows (n int)")
	s, err := StartStandby(ctx, primary, "one")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(primary.WaitsFor(ctx, s))
	query(t, primary, "insert into rows values (1)")
	must(s.Cut(ctx))
	waits := make(chan error, 1)
	go func() {
		_, err := primary.Query(ctx, superuser, "insert into rows values (2)")
		waits <- err
	}()
	const waiting = "select count(*) = 1 from pg_stat_activity where wait_event = 'SyncRep'"
	must(primary.until(ctx, waiting))
	must(s.Heal(ctx))
	must(<-waits)
	if got := query(t, s.Postgres, "select count(*) from rows; select pg_is_in_recovery()"); got != "2\nt" {
		t.Errorf("the standby has %q", got)
	}
	must(s.Cut(ctx))
	go func() {
		_, err := primary.Query(ctx, superuser, "insert into rows values (3)")
		waits <- err
	}()
	must(primary.until(ctx, waiting))
	must(primary.Kill())
	if err := <-waits; err == nil {
		t.Error("COMMIT did not wait")
	}
	must(s.Promote(ctx))
	if got := query(t, s.Postgres, "insert into rows values (4); select string_agg(n::text, ' ' order by n) from rows"); got != "1 2 4" {
		t.Errorf("the new primary has %q", got)
	}
}

func TestSetIsSeenWhenItReturns(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, nil)
	for _, value := range []string{"17s", "18s", "it's wrong"} {
		err := pg.Set(t.Context(), "deadlock_timeout", value)
		if wrong := strings.Contains(value, "wrong"); wrong != (err != nil) {
			t.Errorf("Set to %q: %v", value, err)
		} else if got := query(t, pg, "show deadlock_timeout"); !wrong && got != value {
			t.Errorf("show says %q, want %q", got, value)
		}
	}
}
