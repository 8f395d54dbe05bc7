package fingerprint_test

import (
	"testing"

	"github.com/oncelib/once/internal/base/fingerprint"
)

// TestDifferOnlyWithinOneVersion: only fingerprints of one version, and of one rule, say that two requests differ.
func TestDifferOnlyWithinOneVersion(t *testing.T) {
	a, b := fingerprint.Of([]byte("a")), fingerprint.Of([]byte("b"))
	one, other := fingerprint.Of([]byte("rule 1")), fingerprint.Of([]byte("rule 2"))
	ruled := func(f, rule [fingerprint.Size]byte) []byte { f = fingerprint.Ruled(f, rule); return f[:] }
	later := append([]byte{9}, b[1:]...)
	for _, c := range []struct {
		name   string
		a, b   []byte
		differ bool
	}{
		{"the same", a[:], a[:], false},
		{"others", a[:], b[:], true},
		{"none", a[:], nil, false},
		{"versions", a[:], later, false},
		{"no rule and a rule", a[:], ruled(b, one), false},
		{"the same, of a rule", ruled(a, one), ruled(a, one), false},
		{"others, of a rule", ruled(a, one), ruled(b, one), true},
		{"of two rules", ruled(a, one), ruled(b, other), false},
		{"the same, of two rules", ruled(a, one), ruled(a, other), false},
		{"cut", ruled(a, one), ruled(a, one)[:20], true},
	} {
		if got := fingerprint.Differ(c.a, c.b); got != c.differ || got != fingerprint.Differ(c.b, c.a) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestRuledIsStable: the bytes are stored.
func TestRuledIsStable(t *testing.T) {
	f, rule := fingerprint.Of([]byte("a")), fingerprint.Of([]byte("rule"))
	got := fingerprint.Ruled(f, rule)
	if got[0] != 2 || string(got[1:29]) != string(f[1:29]) || string(got[29:]) != string(rule[1:5]) {
		t.Errorf("%x", got)
	}
}
