package site_test

import (
	"bytes"
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestSite builds the site. Each page of docs/ is on it, in the sidebar and in the index of the search; each link leads to a page, and each anchor to a heading.
// A link that leads nowhere fails the build.
func TestSite(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "node", "npm")
	dir := builder(t)
	all, err := filepath.Abs(docs)
	harness.Must(t, err)
	out := t.TempDir()
	if text, err := build(t, dir, all, out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	pages := site(t, out)
	sidebar := pages["/quickstart"]
	if sidebar == nil {
		t.Fatalf("no quick start among %d pages", len(pages))
	}
	index := searchIndex(t, out)
	for name := range markdown(t, all) {
		at := "/" + strings.TrimSuffix(strings.TrimSuffix(name, ".md"), "README")
		if pages[at] == nil {
			t.Errorf("%s is not on the site", name)
		}
		if at != "/" && !bytes.Contains(sidebar, []byte(`href="`+at+`"`)) {
			t.Errorf("%s is not in the sidebar. Try: a line for it in docs/README.md, or docs/runbooks/README.md", name)
		}
		if !bytes.Contains(index, []byte(`"`+at+`#`)) && !bytes.Contains(index, []byte(`"`+at+`"`)) {
			t.Errorf("%s is not in the index of the search", name)
		}
	}
	links := 0
	for from, text := range pages {
		for _, l := range regexp.MustCompile(`<a [^>]*href="([^"]*)"`).FindAllSubmatch(text, -1) {
			links++
			if broken := follow(pages, from, html.UnescapeString(string(l[1]))); broken != "" {
				t.Errorf("%s: %s", from, broken)
			}
		}
	}
	if links < 3000 {
		t.Errorf("vacuous: %d links", links)
	}
	t.Run("dead", func(t *testing.T) { deadLink(t, dir) })
}

// deadLink: the build of a few pages fails if one of them leads nowhere, on the site or in the repository.
func deadLink(t *testing.T, dir string) {
	t.Helper()
	for _, c := range []struct{ link, says string }{{"nowhere.md", "nowhere"}, {"../nowhere.go", "nowhere.go"}} {
		root := t.TempDir()
		for name, text := range map[string]string{"README.md": "# Index\n\n## Start\n\n- [A](a.md)\n", "a.md": "# A\n\n[a link](" + c.link + ")\n", "runbooks/README.md": "# Runbooks\n"} {
			file := filepath.Join(root, "docs", name)
			harness.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
			harness.Must(t, os.WriteFile(file, []byte(text), 0o600))
		}
		text, err := build(t, dir, filepath.Join(root, "docs"), filepath.Join(root, "out"))
		if err == nil || !strings.Contains(text, c.says) {
			t.Errorf("a link to %s: %v\n%s", c.link, err, text)
		}
	}
}

// builder is a folder with what builds the site.
func builder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	from := os.DirFS("../../site")
	for _, name := range []string{"package.json", "package-lock.json", ".vitepress/config.mjs", ".vitepress/theme/index.js", ".vitepress/theme/once.css"} {
		text, err := fs.ReadFile(from, name)
		harness.Must(t, err)
		harness.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		harness.Must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s\nTry: a network from which the npm registry can be reached", err, text)
	}
	return dir
}

func build(t *testing.T, dir, from, into string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node_modules/.bin/vitepress", "build")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ONCE_SITE_DOCS="+from, "ONCE_SITE_OUT="+into, "NO_COLOR=1")
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// site are the pages, by their path.
func site(t *testing.T, out string) map[string][]byte {
	t.Helper()
	pages := map[string][]byte{}
	harness.Must(t, fs.WalkDir(os.DirFS(out), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".html" || name == "404.html" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(out, name))
		pages["/"+strings.TrimSuffix(strings.TrimSuffix(name, ".html"), "index")] = text
		return err
	}))
	return pages
}

// markdown are the pages of docs/.
func markdown(t *testing.T, dir string) map[string]bool {
	t.Helper()
	pages := map[string]bool{}
	harness.Must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			pages[name] = true
		}
		return err
	}))
	if len(pages) < 70 {
		t.Errorf("vacuous: %d pages", len(pages))
	}
	return pages
}

func searchIndex(t *testing.T, out string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "assets", "chunks", "@localSearchIndexroot*.js"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files with an index, %v", len(files), err)
	}
	text, err := os.ReadFile(files[0])
	harness.Must(t, err)
	return text
}

// follow says what is wrong with a link of a page. What leads to another host is not asked.
func follow(pages map[string][]byte, from, link string) string {
	base := &url.URL{Path: from}
	to, err := base.Parse(link)
	if err != nil {
		return err.Error()
	}
	if to.Host != "" {
		return ""
	}
	if path.Ext(to.Path) != "" && strings.HasPrefix(to.Path, "/assets/") {
		return ""
	}
	page := pages[to.Path]
	if page == nil {
		return link + " is no page"
	}
	if to.Fragment != "" && !bytes.Contains(page, []byte(`id="`+html.EscapeString(to.Fragment)+`"`)) {
		return link + " is no heading"
	}
	return ""
}
