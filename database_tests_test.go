package once_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackagesNameTheirDatabaseTests: a package whose tests on databases or servers are in a folder of integration says so in a test file of
// its own, with the command that runs both: else "go test" there is green and has tested little.
func TestPackagesNameTheirDatabaseTests(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir("integration")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{} // names of packages
	for _, d := range folders {
		tested[d.Name()] = d.IsDir()
	}
	for _, m := range regexp.MustCompile(`(?m)^INTEGRATION_OF_(\w+) := (.*)$`).FindAllStringSubmatch(string(makefile), -1) {
		for folder := range strings.FieldsSeq(m[2]) {
			if !tested[folder] {
				t.Errorf("the Makefile has %s tested by integration/%s, which does not exist", m[1], folder)
			}
		}
		tested[m[1]] = true
	}
	packages := 0
	err = filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == "." {
			return err
		}
		if slices.Contains([]string{"integration", "cmd", "examples", "bench", "docs", "testdata", "node_modules"}, d.Name()) || d.Name()[0] == '.' {
			return fs.SkipDir
		}
		if sources, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(sources) == 0 || !tested[d.Name()] {
			return err
		}
		packages++
		says := `"make test-of DIR=` + filepath.ToSlash(dir) + `"`
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), says) {
				return err
			}
		}
		t.Errorf("no test of %s says where its tests on databases are.\nTry: a comment with %s, as in %s", dir, says, path.Join("inbox", "without_database_test.go"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if packages < 20 {
		t.Errorf("vacuous: %d packages", packages)
	}
}
