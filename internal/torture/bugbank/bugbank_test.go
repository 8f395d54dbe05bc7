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

// How many mutants make prove takes, so that it keeps its time when much has changed. "make mutants" takes all.
const (
	most   = 100 // of those that a change calls for
	sample = 25  // of the others
)

func newBank(t *testing.T, mutants ...Mutant) *Bank {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	bank, err := New(root, mutants...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bank.Close(); err != nil {
			t.Error(err)
		}
	})
	return bank
}

// TestEveryMutantApplies: code has moved or changed, and a mutant was not told.
func TestEveryMutantApplies(t *testing.T) {
	all := All()
	bank := newBank(t, all...)
	names := map[string]bool{}
	for _, m := range all {
		if names[m.Name] || len(m.Tests) == 0 || len(bank.places[m.Name]) == 0 {
			t.Errorf("%q: another one has its name, or it edits nothing, or no test is to kill it", m.Name)
		}
		names[m.Name] = true
	}
	testenv.Reportf(t, "%d mutants, %d of them in shared builds", len(all), len(bank.ids))
}

// TestEveryMutantIsKilled fails if a seeded bug survives. With ONCE_MUTANTS=changed it takes
// some of those that the change since ONCE_BASE calls for, and of the others, by lot.
func TestEveryMutantIsKilled(t *testing.T) {
	testenv.Prove(t)
	bank := newBank(t, All()...)
	mutants := bank.Mutants
	if os.Getenv("ONCE_MUTANTS") == "changed" {
		chosen, changed, err := bank.Choose(t.Context(), os.Getenv(BaseVariable), most, sample)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Reportf(t, "%d of %d mutants, by lot: the functions or tests of %d have changed", len(chosen), len(mutants), changed)
		bank, mutants = newBank(t, chosen...), chosen // builds and controls of these only
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
			testenv.Reportf(t, "%5.1f s: %s, by %s", k.took.Seconds(), k.name, k.killer)
		}
		testenv.Reportf(t, "%d mutants killed", len(kills))
	})
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // while one waits for a server, another one is compiled
			began := time.Now()
			killer, err := bank.Kill(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			kills = append(kills, kill{m.Name, killer, time.Since(began)})
			t.Logf("killed by %s in %.1f s", killer, time.Since(began).Seconds())
		})
	}
}

// TestALivingMutantFailsTheBank: a bank that cannot fail proves nothing.
func TestALivingMutantFailsTheBank(t *testing.T) {
	testenv.Prove(t)
	wantRefusal(t, "lives", Killer{Module: ".", Package: "internal/pgsql", Test: "TestLockIDsAre64Bits"})
}

// TestAFailingKillerFailsTheBank: a test that fails whatever is edited, or that is not
// there, has not found the bug.
func TestAFailingKillerFailsTheBank(t *testing.T) {
	testenv.Prove(t)
	wantRefusal(t, "lives", ill)
	t.Setenv(illness, "yes")
	wantRefusal(t, "does not pass without the bug", ill)
	wantRefusal(t, "does not pass without the bug", Killer{Module: ".", Package: "internal/pgsql", Test: "TestThatNobodyHasWritten"})
}

// wantRefusal asks a killer about edits that are no bug, one in a shared build and one alone.
func wantRefusal(t *testing.T, reason string, killer Killer) {
	t.Helper()
	for _, harmless := range []Mutant{
		{
			Name:  "an order of no importance is changed",
			Edits: []Edit{{In: "keyname.New", Old: "var ms [8]byte", New: "var ms [8]byte; _ = u"}},
			Tests: []Killer{killer},
		},
		{
			Name:  "a constant that the killer does not need is changed",
			Edits: []Edit{{In: "DefaultRuns", Old: "3", New: "4"}},
			Tests: []Killer{killer},
		},
	} {
		k, err := newBank(t, harmless).Kill(t.Context(), harmless)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: killed by %s: %v, want a mutant that %q", harmless.Name, k, err, reason)
		}
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
