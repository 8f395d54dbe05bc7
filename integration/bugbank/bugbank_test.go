package bugbank

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

// How many mutants make prove takes, so that it keeps its time when much has changed. "make mutants" takes all.
const (
	most   = 100 // of those that a change calls for
	sample = 25  // of the others
)

func newBank(t *testing.T, mutants ...Mutant) *Bank {
	t.Helper()
	root, err := filepath.Abs("../..")
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

// TestEveryMutantNamesATest: a killer that was renamed is found in seconds, and not when the bank is run.
func TestEveryMutantNamesATest(t *testing.T) {
	list, err := tier.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, test := range list {
		known[test.Dir+" "+test.Name] = true
	}
	for _, m := range All() {
		for _, k := range m.Tests {
			if dir := path.Join(k.Module, k.Package); !known[dir+" "+k.top()] {
				t.Errorf("%q: %s has no test %s.\nTry: the name that it has now", m.Name, dir, k.top())
			}
		}
	}
}

// TestEveryMutantIsKilled fails if a seeded bug survives. With ONCE_MUTANTS=changed it takes
// some of those that the change since ONCE_BASE calls for, and of the others, by lot. With ONCE_UNTIL it tries no further one
// from that time on.
func TestEveryMutantIsKilled(t *testing.T) {
	testenv.Prove(t)
	bank := newBank(t, All()...)
	mutants := bank.Mutants
	if os.Getenv(testenv.MutantsVariable) == "changed" {
		chosen, changed, err := bank.Choose(t.Context(), os.Getenv(BaseVariable), most, sample)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Reportf(t, "%d of %d mutants, by lot: the functions or tests of %d have changed", len(chosen), len(mutants), changed)
		bank, mutants = newBank(t, chosen...), inTurns(chosen) // builds and controls of these only
	}
	until := readUntil(t)
	type kill struct {
		name   string
		killer Killer
		took   time.Duration
	}
	var (
		mu       sync.Mutex
		kills    []kill
		notTried []string
	)
	t.Cleanup(func() { // when all are killed
		slices.SortFunc(kills, func(a, b kill) int { return cmp.Compare(b.took, a.took) })
		for _, k := range kills[:min(10, len(kills))] {
			testenv.Reportf(t, "%5.1f s: %s, by %s", k.took.Seconds(), k.name, k.killer)
		}
		testenv.Reportf(t, "%d mutants killed; the time was over for %d: %q", len(kills), len(notTried), notTried)
	})
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // while one waits for a server, another one is compiled
			began := time.Now()
			if !until.IsZero() && began.After(until) {
				mu.Lock()
				defer mu.Unlock()
				notTried = append(notTried, m.Name)
				return
			}
			killer, err := bank.Kill(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			kills = append(kills, kill{m.Name, killer, time.Since(began)})
			testenv.Count("mutants killed", 1)
			t.Logf("killed by %s in %.1f s", killer, time.Since(began).Seconds())
		})
	}
}

// readUntil is when no further mutant is tried; zero means never.
func readUntil(t *testing.T) (until time.Time) {
	t.Helper()
	if text := os.Getenv(testenv.UntilVariable); text != "" {
		var err error
		if until, err = time.Parse(time.RFC3339, text); err != nil {
			t.Fatal(err)
		}
	}
	return until
}

// inTurns orders mutants so that a few of each package come first, then a few more: its tests are built once, and a run
// whose time ends early has still tried all packages.
func inTurns(mutants []Mutant) []Mutant {
	const few = 6
	var order []target
	of := map[target][]Mutant{}
	for _, m := range mutants {
		t := m.Tests[0].target()
		if of[t] == nil {
			order = append(order, t)
		}
		of[t] = append(of[t], m)
	}
	var turns []Mutant
	for len(turns) < len(mutants) {
		for _, t := range order {
			n := min(few, len(of[t]))
			turns, of[t] = append(turns, of[t][:n]...), of[t][n:]
		}
	}
	return turns
}

// TestALivingMutantFailsTheBank: a bank that cannot fail proves nothing.
func TestALivingMutantFailsTheBank(t *testing.T) {
	testenv.Prove(t)
	wantRefusal(t, "lives", Killer{Module: ".", Package: "internal/sql/pgsql", Test: "TestLockIDsAre64Bits"})
}

// TestAFailingKillerFailsTheBank: a test that fails whatever is edited, or that is not
// there, has not found the bug.
func TestAFailingKillerFailsTheBank(t *testing.T) {
	testenv.Prove(t)
	wantRefusal(t, "lives", ill)
	t.Setenv(illness, "yes")
	wantRefusal(t, "does not pass without the bug", ill)
	wantRefusal(t, "does not pass without the bug", Killer{Module: ".", Package: "internal/sql/pgsql", Test: "TestThatNobodyHasWritten"})
	wantRefusal(t, "no such test ran", Killer{Module: ".", Package: "internal/sql/pgsql", Test: "TestLockIDsAre64Bits$/^not_there"})
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
			Edits: []Edit{{In: "defaultRuns", Old: "3", New: "4"}},
			Tests: []Killer{killer},
		},
	} {
		k, err := newBank(t, harmless).Kill(t.Context(), harmless)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: killed by %s: %v, want a mutant that %q", harmless.Name, k, err, reason)
		}
	}
}

var ill = Killer{Module: "integration", Package: "bugbank", Test: "TestMachineLacksNothing"}

const illness = "ONCE_BUGBANK_ILL"

// TestMachineLacksNothing fails where the environment says so, as one that lacks a server does.
func TestMachineLacksNothing(t *testing.T) {
	if os.Getenv(illness) != "" {
		t.Error("something is missing")
	}
}
