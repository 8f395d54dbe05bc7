package property

import (
	"flag"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestASeedIsOneHistory: what a failure prints leads to the same failure.
func TestASeedIsOneHistory(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "7", "rapid.checks": "25"} {
		was := flag.Lookup(name).Value.String()
		defer func() { _ = flag.Set(name, was) }()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	var stories [2][]string
	for i := range stories {
		rapid.Check(t, func(rt *rapid.T) {
			rapid.SyncTest(rt, func(rt *rapid.T) { stories[i] = append(stories[i], history(rt, tally{})...) })
		})
	}
	if len(stories[0]) < 1000 {
		t.Fatalf("vacuous: %d lines", len(stories[0]))
	}
	for n, line := range stories[0] {
		if n >= len(stories[1]) || stories[1][n] != line {
			t.Fatalf("line %d of the story is %q, and the next time %q", n, line, stories[1][n:min(n+1, len(stories[1]))])
		}
	}
	if !slices.Equal(stories[0], stories[1]) {
		t.Errorf("%d lines, and the next time %d", len(stories[0]), len(stories[1]))
	}
}
