package letter

// The tests with databases are in integration/deadletter and integration/inbox: "make test-of DIR=internal/sql/letter" runs them after these.

import (
	"strings"
	"testing"
)

// TestErrorTextIsStorable: any error can be stored, and errors of one cause are equal without their numbers and ids.
func TestErrorTextIsStorable(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a\x00b": "ab", "\xff\xff": "?", strings.Repeat("é", 10): "ééé?",
	} {
		if got := text(in, 7); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"order 4711 of acct_12 is unknown":                                   "order # of # is unknown",
		"dial tcp 10.0.0.1:5432: connection refused":                         "dial tcp #.#.#.#:#: connection refused",
		"refund 01945a00-0000-7000-8000-000000000001: no such customer":      "refund #: no such customer",
		strings.Repeat("long ", 100):                                         strings.Repeat("long ", 40),
		"duplicate key value violates unique constraint \"charge_pkey\"\x00": "duplicate key value violates unique constraint \"charge_pkey\"",
	} {
		if got := causeOf(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
