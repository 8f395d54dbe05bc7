package bugbank

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestEveryMutantIsKilled fails if a seeded bug survives.
func TestEveryMutantIsKilled(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	bank := New(root, All()...)
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
		for _, k := range kills {
			testenv.Reportf(t, "%5.1f s: %s, by %s", k.took.Seconds(), k.name, k.killer)
		}
	})
	for _, m := range bank.Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // while one waits for a server, another one is compiled
			killer, took, err := bank.Kill(t.Context(), m)
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
	wantRefusal(t, "lives", Killer{Module: ".", Package: "internal/pgsql", Test: "TestLockIDsAre64Bits"})
}

// TestAFailingKillerFailsTheBank: a test that fails whatever is edited, or that is not
// there, has not found the bug.
func TestAFailingKillerFailsTheBank(t *testing.T) {
	wantRefusal(t, "lives", ill)
	t.Setenv(illness, "yes")
	wantRefusal(t, "does not pass without the bug", ill)
	wantRefusal(t, "does not pass without the bug", Killer{Module: ".", Package: "internal/pgsql", Test: "TestThatNobodyHasWritten"})
}

// wantRefusal asks a killer about an edit that is no bug.
func wantRefusal(t *testing.T, reason string, killer Killer) {
	t.Helper()
	harmless := Mutant{
		Name:  "a comment is changed",
		Edits: []Edit{{File: "doc.go", Old: "sync.Once across", New: "Sync.Once across"}},
		Tests: []Killer{killer},
	}
	k, _, err := New(filepath.Join("..", "..", ".."), harmless).Kill(t.Context(), harmless)
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("killed by %s: %v, want a mutant that %q", k, err, reason)
	}
}

var ill = Killer{Module: "internal/torture", Package: "bugbank", Test: "TestMachine"}

const illness = "ONCE_BUGBANK_ILL"

// TestMachine fails where the environment says so, as one that lacks a server does.
func TestMachine(t *testing.T) {
	if os.Getenv(illness) != "" {
		t.Error("something is missing")
	}
}
