package main

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

// draw is a set of tests of one package that run together.
type draw struct {
	dir   string
	names []string
	kind  string // core or lot
}

func (d draw) String() string { return d.dir + ": " + strings.Join(d.names, " ") }

type draws []draw

func (ds draws) tests() (n int) {
	for _, d := range ds {
		n += len(d.names)
	}
	return n
}

// plan has the tests that make prove may run, by directory.
type plan struct {
	core, others draws
	mutants      draw // the test that kills mutants, which has its own share of the time
}

// bank is the name of the test that kills the mutants.
const bank = "TestEveryMutantIsKilled"

func newPlan(tests []tier.Test) (p plan) {
	for _, t := range tests {
		switch {
		case !slices.Contains(t.Tiers, testenv.InProve):
		case t.Name == bank:
			p.mutants = draw{dir: t.Dir, names: []string{t.Name}}
		case t.Core:
			p.core = p.core.with(t, "core")
		default:
			p.others = p.others.with(t, "lot")
		}
	}
	return p
}

// with adds a test to the draw of its directory. The tests come sorted by directory.
func (ds draws) with(t tier.Test, kind string) draws {
	if last := len(ds) - 1; last >= 0 && ds[last].dir == t.Dir {
		ds[last].names = append(ds[last].names, t.Name)
		return ds
	}
	return append(ds, draw{dir: t.Dir, names: []string{t.Name}, kind: kind})
}

// together is how many tests of a package are drawn at once. They share its servers. A larger number would make the lot less random.
const together = 4

// draws returns the other tests in the order in which the tree draws them.
func (p plan) draws(tree string) (order draws) {
	h := fnv.New64a()
	h.Write([]byte(tree))
	lot := rand.New(rand.NewPCG(h.Sum64(), 0)) // the same tree gives the same order
	for _, d := range p.others {
		names := slices.Clone(d.names)
		lot.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for some := range slices.Chunk(names, together) {
			order = append(order, draw{dir: d.dir, names: some, kind: d.kind})
		}
	}
	lot.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
