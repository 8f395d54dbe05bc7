package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const root = "github.com/oncelib/once"

// unreleased are the modules that no module outside of the tree imports.
var unreleased = []string{"bench", "bench/rivals", "examples", "examples/shop", "integration"}

var versionForm = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// release is the set of modules to release, by their folders in the tree. "." comes first.
type release struct {
	ctx           context.Context //nolint:containedctx // of the one command that the process runs
	tree, version string
	folders       []string
	files         []string // all files of the tree that git knows or would add
}

// read finds the modules of the tree around the working directory.
func read(ctx context.Context, version string) (*release, error) {
	if !versionForm.MatchString(version) {
		return nil, fmt.Errorf("%q is not a version. Try: v0.1.0", version)
	}
	top, err := git(ctx, ".", nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := &release{ctx: ctx, tree: strings.TrimSpace(top), version: version}
	listed, err := git(r.ctx, r.tree, nil, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(r.tree, file)); errors.Is(err, os.ErrNotExist) {
			continue // deleted in the working tree, but not yet in git
		}
		r.files = append(r.files, file)
		if path.Base(file) == "go.mod" {
			r.folders = append(r.folders, path.Dir(file))
		}
	}
	slices.Sort(r.folders)
	return r, nil
}

// released returns the folders of the modules that are released.
func (r *release) released() []string {
	return slices.DeleteFunc(slices.Clone(r.folders), func(f string) bool { return slices.Contains(unreleased, f) })
}

// use writes the replace directives with which another module uses this checkout.
func (r *release) use(w io.Writer) error {
	_, err := fmt.Fprintln(w, "replace (")
	for _, folder := range r.released() {
		if err == nil {
			_, err = fmt.Fprintf(w, "\t%s => %s\n", modulePath(folder), strconv.Quote(filepath.Join(r.tree, folder)))
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w, ")")
	}
	return err
}

// modulePath returns the import path of the module in a folder.
func modulePath(folder string) string { return path.Join(root, folder) }

// moduleOf returns the folder of the module that a file belongs to.
func (r *release) moduleOf(file string) string {
	dir := path.Dir(file)
	for dir != "." && !slices.Contains(r.folders, dir) {
		dir = path.Dir(dir)
	}
	return dir
}

// goMod returns the go.mod of a module as it is released: it requires the other modules at the version of the release, and
// replaces nothing.
func (r *release) goMod(folder string) (string, error) {
	file, err := os.CreateTemp("", "go.mod")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	text, err := os.ReadFile(filepath.Join(r.tree, folder, "go.mod"))
	if err != nil {
		return "", err
	}
	if _, err := file.Write(text); err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	edit := []string{"mod", "edit"}
	for _, f := range r.folders {
		edit = append(edit, "-dropreplace="+modulePath(f))
		if regexp.MustCompile(`(?m)^(require)?\s+` + regexp.QuoteMeta(modulePath(f)) + ` v`).Match(text) {
			if slices.Contains(unreleased, f) {
				return "", fmt.Errorf("the module %s requires %s, which is not released", modulePath(folder), modulePath(f))
			}
			edit = append(edit, "-require="+modulePath(f)+"@"+r.version)
		}
	}
	if text, err := exec.CommandContext(r.ctx, "go", append(edit, file.Name())...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go mod edit of %s: %w: %s", folder, err, text)
	}
	edited, err := os.ReadFile(file.Name())
	if err == nil && strings.Contains(string(edited), "replace ") {
		err = fmt.Errorf("%s/go.mod replaces a module that is not part of this repository. Try: a released version of this module", folder)
	}
	return string(edited), err
}

// proxy writes the files of a module proxy into a folder, in the layout of GOPROXY=file://.
func (r *release) proxy(dir string) error {
	for _, folder := range r.released() {
		mod, err := r.goMod(folder)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(modulePath(folder)), "@v")
		if err := os.MkdirAll(at, 0o750); err != nil {
			return err
		}
		for name, text := range map[string]string{
			"list":              r.version + "\n",
			r.version + ".info": fmt.Sprintf(`{"Version":%q}`, r.version),
			r.version + ".mod":  mod,
		} {
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		if err := r.zip(folder, mod, filepath.Join(at, r.version+".zip")); err != nil {
			return err
		}
	}
	return nil
}

// zip writes the files of a module, without the files of the modules inside it.
func (r *release) zip(folder, mod, name string) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := zip.NewWriter(out)
	for _, file := range r.files {
		if r.moduleOf(file) != folder {
			continue
		}
		inside, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		w, err := z.Create(modulePath(folder) + "@" + r.version + "/" + filepath.ToSlash(inside))
		if err != nil {
			return err
		}
		if inside == "go.mod" {
			_, err = io.WriteString(w, mod)
		} else {
			err = copyFile(w, filepath.Join(r.tree, file))
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

func copyFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// tag commits the go.mod files of the release without a branch, and tags this commit for each module. It pushes nothing, and changes
// neither the working tree nor its branch.
func (r *release) tag(w io.Writer) error {
	if dirty, err := git(r.ctx, r.tree, nil, "status", "--porcelain"); err != nil || dirty != "" {
		return errors.Join(err, errors.New("the working tree has uncommitted changes. Try: commit them, or git stash"))
	}
	changes, err := os.ReadFile(filepath.Join(r.tree, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if err := tells(string(changes), r.version); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")} // a separate index, so that the index of the working tree does not change
	if _, err := git(r.ctx, r.tree, index, "read-tree", "HEAD"); err != nil {
		return err
	}
	for _, folder := range r.released() {
		mod, err := r.goMod(folder)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "go.mod")
		if err := os.WriteFile(file, []byte(mod), 0o600); err != nil {
			return err
		}
		blob, err := git(r.ctx, r.tree, nil, "hash-object", "-w", file)
		if err != nil {
			return err
		}
		if _, err := git(r.ctx, r.tree, index, "update-index", "--cacheinfo", "100644,"+strings.TrimSpace(blob)+","+path.Join(folder, "go.mod")); err != nil {
			return err
		}
	}
	tree, err := git(r.ctx, r.tree, index, "write-tree")
	if err != nil {
		return err
	}
	commit, err := git(r.ctx, r.tree, nil, "commit-tree", strings.TrimSpace(tree), "-p", "HEAD", "-m", "Release "+r.version)
	if err != nil {
		return err
	}
	var tags []string
	for _, folder := range r.released() {
		tag := path.Join(folder, r.version) // for the folder ".", the tag is the version alone
		if _, err := git(r.ctx, r.tree, nil, "tag", tag, strings.TrimSpace(commit)); err != nil {
			return fmt.Errorf("%w. Try: git tag -d %s, if that release was never pushed", err, tag)
		}
		tags = append(tags, tag)
	}
	fmt.Fprintf(w, "%d modules are tagged at %.12s.\nTry: git push --atomic origin %s\n", len(tags), commit, strings.Join(tags, " "))
	return nil
}

// tells returns an error if a changelog has no section for the version.
func tells(changes, version string) error {
	section := "## " + strings.TrimPrefix(version, "v")
	if !strings.Contains(changes, "\n"+section+"\n") {
		return fmt.Errorf("CHANGELOG.md has no section %q. Try: move the entries of the section Unreleased into it, and commit the change", section)
	}
	return nil
}

func git(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}
