package once_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrases are ten turns of speech that readers without context had to read twice.
// CONTRIBUTING.md says what to write instead.
var phrases = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`what (is|was|are|were|has|have|had|can|cannot|may|must|will)`, // a noun is shorter
	`those (that|of|who|which)`,                                    // repeat the noun
	`somebody|nobody|whoever|anybody|everybody`,                    // a goroutine, a process, a caller
	`(is|are|was|were|be|been) told`,                               // returns, receives
	`stands?`,                                                      // is committed, applies
	`(is|are|was|were) none`,                                       // there is no X; zero means no limit
	`beside`,                                                       // next to, besides, while
	`anew`,                                                         // again
	`in the way`,                                                   // say what is blocked
	`(lets?|letting) go`,                                           // release
}, "|") + `)\b`)

// TestPhrasesOnlyBecomeFewer holds the number of these phrases in the comments of each folder, tests left out.
// A number may fall and not rise: run with -update after you have made one fall.
func TestPhrasesOnlyBecomeFewer(t *testing.T) {
	counts := countPhrases(t)
	const path = "testdata/phrases.txt"
	if *update {
		writePhrases(t, path, counts)
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var dir string
		var n int
		if _, err := fmt.Sscan(line, &dir, &n); err != nil {
			t.Fatalf("%s: line %q: %v", path, line, err)
		}
		held[dir] = n
	}
	for dir, found := range counts {
		if len(found) > held[dir] {
			t.Errorf("%s: %d comments use one of the ten phrases, and %s allows %d. Try: say it with a noun (CONTRIBUTING.md):\n\t%s",
				dir, len(found), path, held[dir], strings.Join(found, "\n\t"))
		}
	}
}

func countPhrases(t *testing.T) map[string][]string {
	t.Helper()
	counts := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "integration", "testenv"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir, _, inside := strings.Cut(filepath.ToSlash(path), "/")
		if !inside {
			dir = "."
		}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				for _, phrase := range phrases.FindAllString(comment.Text, -1) {
					counts[dir] = append(counts[dir], fmt.Sprintf("%s: %q: %s", files.Position(comment.Pos()), phrase, comment.Text))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func writePhrases(t *testing.T, path string, counts map[string][]string) {
	t.Helper()
	var text strings.Builder
	dirs := make([]string, 0, len(counts))
	for dir := range counts {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	sum := 0
	for _, dir := range dirs {
		fmt.Fprintf(&text, "%s %d\n", dir, len(counts[dir]))
		sum += len(counts[dir])
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d phrases", sum)
}
