package demo

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncelib/once/cmd/once/internal/killstorm"
)

// TestProgressFitsATerminal: the bar fits into a terminal, and a log gets a line per kill.
func TestProgressFitsATerminal(t *testing.T) {
	t.Parallel()
	full := killstorm.Progress{Stage: "replaying", Finished: 100_000, Orders: 100_000, Killed: 50, Kills: 50, Sent: 600_000, Dropped: 90_000}
	for _, p := range []killstorm.Progress{{}, {Stage: "storm", Finished: 1, Orders: 3}, full} {
		if b := bar(p); utf8.RuneCountInString(b) > 80 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(b), b)
		}
	}
	var log strings.Builder
	m := newMeter(&log)
	for _, p := range []killstorm.Progress{{Stage: "storm"}, {Stage: "storm", Finished: 1}, {Stage: "storm", Killed: 1}, {Stage: "storm", Killed: 1}} {
		m.show(p)
	}
	m.end()
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
}
