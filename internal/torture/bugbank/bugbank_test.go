package bugbank

import (
	"path/filepath"
	"testing"
	"time"
)

// TestEveryMutantIsKilled fails if a seeded bug survives.
func TestEveryMutantIsKilled(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var total time.Duration
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			killer, took, err := Kill(t.Context(), root, m)
			if err != nil {
				t.Fatal(err)
			}
			total += took
			t.Logf("killed by %s in %.1f s", killer, took.Seconds())
		})
	}
	t.Logf("%d mutants, %.0f s", len(All()), total.Seconds())
}

// TestALivingMutantFailsTheBank: a bank that cannot fail proves nothing.
func TestALivingMutantFailsTheBank(t *testing.T) {
	harmless := Mutant{
		Name:  "a comment is changed",
		Edits: []Edit{{File: "doc.go", Old: "sync.Once across", New: "Sync.Once across"}},
		Tests: []Killer{{Module: ".", Package: "internal/pgsql", Test: "TestLockIDsAre64Bits"}},
	}
	if k, _, err := Kill(t.Context(), filepath.Join("..", "..", ".."), harmless); err == nil {
		t.Fatalf("killed by %s", k)
	}
}
