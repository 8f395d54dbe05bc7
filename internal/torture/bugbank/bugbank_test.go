package bugbank

import (
	"cmp"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestEveryMutantIsKilled fails if a seeded bug survives.
func TestEveryMutantIsKilled(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	type kill struct {
		name   string
		killer Killer
		took   time.Duration
	}
	var (
		mu    sync.Mutex
		kills []kill
	)
	t.Cleanup(func() { // when all are killed
		slices.SortFunc(kills, func(a, b kill) int { return cmp.Compare(b.took, a.took) })
		for _, k := range kills[:min(10, len(kills))] {
			t.Logf("%5.1f s: %s, by %s", k.took.Seconds(), k.name, k.killer)
		}
	})
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // while one waits for a server, another one is compiled
			killer, took, err := Kill(t.Context(), root, m)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			kills = append(kills, kill{m.Name, killer, took})
			t.Logf("killed by %s in %.1f s", killer, took.Seconds())
		})
	}
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
