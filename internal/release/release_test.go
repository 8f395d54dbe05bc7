package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const tried = "v0.1.0"

// TestAStrangerBuildsEachModule: what a release of this tree serves can be built without the tree: each library by a program
// that imports it, and the command. All packages are resolved, and the root module is compiled: the others are
// compiled in the tree anyway, and from an empty cache that takes longer than make prove has. The long form builds all of it, and installs the command.
func TestAStrangerBuildsEachModule(t *testing.T) {
	testenv.Prove(t)
	r, err := read(t.Context(), tried)
	must(t, err)
	dir := t.TempDir()
	must(t, r.proxy(filepath.Join(dir, "proxy")))
	stranger := filepath.Join(dir, "stranger")
	must(t, os.Mkdir(stranger, 0o750))
	cache := strings.TrimSpace(output(t, stranger, nil, "go", "env", "GOMODCACHE"))
	env := []string{
		// What was downloaded before need not be downloaded again; the cache is a proxy, too.
		"GOPROXY=file://" + filepath.ToSlash(filepath.Join(dir, "proxy")) + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")) + "," + strings.TrimSpace(output(t, stranger, nil, "go", "env", "GOPROXY")),
		"GOMODCACHE=" + filepath.Join(dir, "cache"), "GOBIN=" + filepath.Join(dir, "bin"),
		"GOFLAGS=-modcacherw -mod=mod -trimpath", "GOWORK=off", "GOSUMDB=off",
	}
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	for _, folder := range r.released() {
		if !isCommand(folder) {
			fmt.Fprintf(&program, "\t_ %q\n", modulePath(folder))
		}
	}
	must(t, os.WriteFile(filepath.Join(stranger, "main.go"), []byte(program.String()+")\n\nfunc main() {}\n"), 0o600))
	output(t, stranger, env, "go", "mod", "init", "stranger.example")
	for _, folder := range r.released() {
		if !isCommand(folder) {
			output(t, stranger, env, "go", "get", modulePath(folder)+"@"+tried)
		}
	}
	for _, command := range commands {
		output(t, stranger, env, "go", "get", modulePath(command)+"@"+tried)
	}
	output(t, stranger, env, "go", "list", "-deps", "./...", modulePath(commands[0]), modulePath(commands[1]))
	output(t, stranger, env, "go", "build", modulePath("."))
	if os.Getenv("ONCE_TORTURE") != "long" {
		return
	}
	output(t, stranger, env, "go", "build", "-o", os.DevNull, "./...")
	for _, command := range commands {
		output(t, stranger, env, "go", "install", modulePath(command)+"@"+tried)
		once := filepath.Join(dir, "bin", "once")
		if runtime.GOOS == "windows" {
			once += ".exe"
		}
		if says := output(t, stranger, nil, once, "version"); !strings.HasPrefix(says, "once "+tried+",") {
			t.Errorf("%s says %q", command, says)
		}
	}
}

// commands are the two builds of the command.
var commands = []string{"cmd/once", "cmd/once/full/once"}

func isCommand(folder string) bool { return strings.HasPrefix(folder, "cmd/") }

// TestUseBuildsAProgram: until there is a release, what "go run ./internal/release use" prints, at the end of a go.mod, is enough for a program that
// uses a store.
func TestUseBuildsAProgram(t *testing.T) {
	testenv.Prove(t)
	stranger := t.TempDir()
	env := []string{"GOWORK=off", "GOFLAGS=-mod=mod"}
	must(t, os.WriteFile(filepath.Join(stranger, "main.go"), []byte(`package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

func main() {
	pool, err := pgxpool.New(context.Background(), "")
	if err != nil {
		panic(err)
	}
	once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
}
`), 0o600))
	output(t, stranger, env, "go", "mod", "init", "stranger.example")
	mod := filepath.Join(stranger, "go.mod")
	text, err := os.ReadFile(mod)
	must(t, err)
	said := bytes.NewBuffer(text)
	must(t, run(t.Context(), said, []string{"use"}))
	must(t, os.WriteFile(mod, said.Bytes(), 0o600))
	output(t, stranger, env, "go", "mod", "tidy")
	output(t, stranger, env, "go", "build", "-o", os.DevNull, ".")
}

// TestTagEachModuleAtOneCommit: one commit beside the branch, one tag a module, and no replace directive in it.
func TestTagEachModuleAtOneCommit(t *testing.T) {
	r, err := read(t.Context(), tried)
	must(t, err)
	clone := filepath.Join(t.TempDir(), "clone")
	output(t, r.tree, nil, "git", "clone", "--quiet", r.tree, clone)
	for _, setting := range []string{"user.name=release", "user.email=release@example.com"} {
		name, value, _ := strings.Cut(setting, "=")
		output(t, clone, nil, "git", "config", name, value)
	}
	t.Chdir(clone)
	var said bytes.Buffer
	if err := run(t.Context(), &said, []string{"tag", tried}); err == nil || !strings.Contains(err.Error(), "CHANGELOG.md has no section") {
		t.Errorf("a release that says nothing of what it changes: %v", err)
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	must(t, err)
	must(t, os.WriteFile("CHANGELOG.md", bytes.Replace(changes, []byte("\n## Unreleased\n"), []byte("\n## Unreleased\n\n## "+strings.TrimPrefix(tried, "v")+"\n"), 1), 0o600))
	output(t, clone, nil, "git", "commit", "--quiet", "-am", "CHANGELOG")
	must(t, run(t.Context(), &said, []string{"tag", tried}))
	c, err := read(t.Context(), tried)
	must(t, err)
	for _, folder := range c.released() {
		tag := path.Join(folder, tried)
		mod := output(t, clone, nil, "git", "show", tag+":"+path.Join(folder, "go.mod"))
		if strings.Contains(mod, "replace ") || strings.Contains(mod, root+" v0.0.0") || !strings.Contains(said.String(), " "+tag) {
			t.Errorf("%s: %s\n%s", tag, mod, said.String())
		}
	}
	if changed := output(t, clone, nil, "git", "status", "--porcelain"); changed != "" {
		t.Errorf("the working tree has changed: %s", changed)
	}
	if err := run(t.Context(), &said, []string{"tag", tried}); err == nil || !strings.Contains(err.Error(), "Try: git tag -d") {
		t.Errorf("a second release of one version: %v", err)
	}
	if err := run(t.Context(), &said, []string{"tag", "0.1"}); err == nil || !strings.Contains(err.Error(), "Try: v0.1.0") {
		t.Errorf("a version that is none: %v", err)
	}
}

// output returns what a command has printed.
// TestChangelogHasTheVersion: a section is that of the version, and of no other one.
func TestChangelogHasTheVersion(t *testing.T) {
	const changes = "# Changelog\n\n## Unreleased\n\n## 0.2.0\n\n- x\n"
	for version, ok := range map[string]bool{"v0.2.0": true, "v0.2.0-rc.1": false, "v0.1.0": false, "v0.2": false} {
		if err := tells(changes, version); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func output(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, stderr.String())
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
