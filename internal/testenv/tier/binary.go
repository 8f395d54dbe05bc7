package tier

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Binaries builds the tests of packages, each package once.
type Binaries struct {
	dir string

	mu     sync.Mutex
	builds map[string]func() (string, error) // by the directories of the packages
}

// NewBinaries returns Binaries that are built in dir.
func NewBinaries(dir string) *Binaries {
	return &Binaries{dir: dir, builds: map[string]func() (string, error){}}
}

// Build returns the file with the tests of a package. The tests are built in the module of the package, so that this works with GOWORK=off as well.
// PROVEFLAGS are flags for go test.
func (b *Binaries) Build(ctx context.Context, pkg string) (string, error) {
	b.mu.Lock()
	build := b.builds[pkg]
	if build == nil {
		file := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
		build = sync.OnceValues(func() (string, error) {
			args := slices.Concat([]string{"test", "-c", "-o", file}, strings.Fields(os.Getenv("PROVEFLAGS")), []string{"."})
			cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the flags of the caller
			cmd.Dir = pkg
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("go test -c: %w\n%s", err, out)
			}
			return file, nil
		})
		b.builds[pkg] = build
	}
	b.mu.Unlock()
	return build()
}
