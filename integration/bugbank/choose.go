package bugbank

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"strings"
)

// BaseVariable names the environment variable with the commit since which changes count.
const BaseVariable = "ONCE_BASE"

// Choose returns the mutants that a change calls for: those of which a declaration that they
// edit, or a test that is to kill them, was not in the commit base as it is now, most of these at most; and sample
// of the others. Both are chosen by lot. HEAD's tree is the seed, so that the same tree has the same lot. A
// base of "" is the newest commit that is older than 24 hours.
func (b *Bank) Choose(ctx context.Context, base string, most, sample int) (chosen []Mutant, changed int, err error) {
	if base == "" {
		if base, err = b.git(ctx, "rev-list", "-1", "--before=24 hours ago", "HEAD"); err != nil {
			return nil, 0, err
		}
	}
	seed, err := b.git(ctx, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return nil, 0, err
	}
	before := map[[sha256.Size]byte]bool{}
	if base != "" { // or else all is new
		if before, err = b.declarations(ctx, base); err != nil {
			return nil, 0, err
		}
	}
	now, err := loadTree(b.Root)
	if err != nil {
		return nil, 0, err
	}
	var others []Mutant
	for _, m := range b.Mutants {
		if b.touched(m, before, now) {
			chosen = append(chosen, m)
		} else {
			others = append(others, m)
		}
	}
	changed = len(chosen)
	h := fnv.New64a()
	h.Write([]byte(seed))
	lot := rand.New(rand.NewPCG(h.Sum64(), 0))
	lot.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	lot.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	chosen = chosen[:min(most, len(chosen))]
	return append(chosen, others[:min(sample, len(others))]...), changed, nil
}

// touched reports whether something that m rests on was not there before.
func (b *Bank) touched(m Mutant, before map[[sha256.Size]byte]bool, now *source) bool {
	for _, p := range b.places[m.Name] {
		if !before[p.decl.sum()] {
			return true
		}
	}
	for _, k := range m.Tests {
		test := now.tests[path.Join(k.Module, k.Package)+" "+k.top()]
		if test == nil || !before[test.sum()] {
			return true
		}
	}
	return false
}

// sum is the same for the same tokens, wherever they stand.
func (d *declaration) sum() [sha256.Size]byte {
	var b bytes.Buffer
	for _, w := range words(d.text()) {
		b.WriteString(w.text + "\n")
	}
	return sha256.Sum256(b.Bytes())
}

// declarations are the sums of those of a commit.
func (b *Bank) declarations(ctx context.Context, commit string) (map[[sha256.Size]byte]bool, error) {
	archive, err := b.git(ctx, "archive", "--format=tar", commit)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(h.Name, ".go") && !strings.Contains(h.Name, "testdata/") {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				return nil, err
			}
		}
	}
	s, err := parse(files)
	if err != nil {
		return nil, err
	}
	sums := map[[sha256.Size]byte]bool{}
	for _, d := range s.all {
		sums[d.sum()] = true
	}
	for _, d := range s.tests {
		sums[d.sum()] = true
	}
	return sums, nil
}

func (b *Bank) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = b.Root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	if args[0] == "archive" {
		return string(out), nil
	}
	return strings.TrimSpace(string(out)), nil
}
