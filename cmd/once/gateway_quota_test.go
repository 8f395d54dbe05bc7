package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGatewayQuota: a caller that has its quota stored is refused, and nothing is forwarded, also by the next process. Its replays are answered, another caller is
// not refused, and the metrics count it. A reload cannot change the quota.
func TestGatewayQuota(t *testing.T) {
	t.Parallel()
	s := newKeyless(t)
	file, text := gatewayConfig(t, s, "  principal: {header: X-Tenant, trusted_from: [127.0.0.0/8]}\n  quota: {bytes: 4KiB, every: 50ms}\n  routes:\n  - {match: POST /pay}\n")
	g := startGateway(t, file)
	// fill sends new requests until one is refused: before the first count none is.
	fill := func(process string) (forwarded int64) {
		t.Helper()
		before := s.effects.Load()
		for i := range 100_000 {
			a := sendKeyed(t, isolated, g.public+"/pay", fmt.Sprint(process, i))
			if a.status == http.StatusTooManyRequests && strings.Contains(a.body, "RATE_LIMIT.stored_bytes") {
				return s.effects.Load() - before
			}
			if a.status != http.StatusCreated {
				t.Fatal(a)
			}
		}
		t.Fatal("nothing is refused")
		return 0
	}
	if n := fill("first"); n == 0 {
		t.Error("vacuous: nothing was forwarded")
	}
	if a := sendKeyed(t, isolated, g.public+"/pay", "first0"); a.how != "replayed" {
		t.Errorf("a replay: %v", a)
	}
	if a := sendAs(t, isolated, "bob", g.public+"/pay", "first0"); a.status != http.StatusCreated || a.how != "stored" {
		t.Errorf("another caller: %v", a)
	}
	writeConfig(t, file, strings.Replace(text, "4KiB", "8KiB", 1))
	g.signal(t, syscall.SIGHUP)
	if log := g.logged(t, "Try: "); !strings.Contains(log, "quota cannot be changed") {
		t.Error(log)
	}
	writeConfig(t, file, text)
	g.signal(t, syscall.SIGKILL)
	_ = g.cmd.Wait()
	g = startGateway(t, file)
	fill("second")
	if a := sendKeyed(t, isolated, g.public+"/pay", "first0"); a.how != "replayed" {
		t.Errorf("a replay by the next process: %v", a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // the first look of the gauges
		has := seriesAt(ctx, t, g.admin+"/metrics")
		if slices.ContainsFunc(has, func(series map[string]string) bool { return series["__name__"] == "once_quota_refused_total" }) {
			return
		}
	}
}
