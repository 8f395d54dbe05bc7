package openapi_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store/memstore"
)

// services are the documents that the validators of the npm world judge, by name.
func services() map[string]*openapi.Document {
	queries := oncehttp.DefaultPreset()
	queries.Methods = []string{"POST", "QUERY", "REPORT"}
	plain := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
	routes := map[string]map[string]oncehttp.Config{
		"nothing":       {},
		"default":       {"POST /refunds": plain, "/orders/{id}": {Principal: oncehttp.SharedPrincipal(), Optional: true}},
		"root":          {"POST /{$}": plain},
		"rest":          {"POST /files/{path...}": plain},
		"two-templates": {"POST /orders/{id}/items/{item}": plain, "PATCH /orders/{order}/items/{part}": plain, "POST /orders/{order}": plain},
		"other-methods": {"/reports": {Principal: oncehttp.SharedPrincipal(), Preset: queries}, "REPORT /reports/{id}": {Principal: oncehttp.SharedPrincipal(), Preset: queries}},
		"strict-form":   {"POST /orders/{id}": {Principal: oncehttp.SharedPrincipal(), Preset: quoted(), FormField: "once"}},
		"own-key":       {"POST api.example.com/hooks": {Principal: oncehttp.SharedPrincipal(), Key: func(*http.Request) (string, error) { return "", nil }}},
		"retention":     {"POST /orders": {Principal: oncehttp.SharedPrincipal(), Retain: time.Hour, Wait: time.Second}},
	}
	for _, p := range []*oncehttp.Preset{stripe.V1(), stripe.V2(), refundplaybook.Preset()} {
		routes[p.Name] = map[string]oncehttp.Config{"/refunds/{id}": {Principal: oncehttp.SharedPrincipal(), Preset: p}}
	}
	e := once.New(memstore.New(), once.Config{})
	docs := map[string]*openapi.Document{}
	for name, r := range routes {
		docs[name] = openapi.New(e, r)
	}
	return docs
}

// npmValidators are the commands that judge files, in a folder with the packages.
var npmValidators = map[string][]string{
	"swagger-parser": {"node", "validate.js"},
	"redocly":        {"node_modules/.bin/redocly", "lint", "--config", "redocly.yaml"},
	"spectral":       {"node_modules/.bin/spectral", "lint", "--ruleset", "spectral.yaml", "--fail-severity", "error"},
}

// TestValidatorsOfNPM: swagger-parser, Redocly and Spectral accept the documents of a table of
// services, and none of them accepts everything.
func TestValidatorsOfNPM(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "node", "npm")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/validators")); err != nil {
		t.Fatal(err)
	}
	run := func(command ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CI=true", "NO_COLOR=1", "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		text, err := cmd.CombinedOutput()
		return string(bytes.TrimSpace(text)), err
	}
	if text, err := run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"); err != nil {
		t.Fatalf("npm ci: %v\n%s\nTry: a network from which the npm registry can be reached", err, text)
	}
	var files []string
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	docs := services()
	for name, doc := range docs {
		files = append(files, name+".json")
		write(name+".json", doc.String())
	}
	write("wrong.json", strings.Replace(docs["default"].String(), `"post":`, `"QUERY":`, 1))
	for name, command := range npmValidators {
		t.Run(name, func(t *testing.T) {
			if text, err := run(append(command, files...)...); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
			if text, err := run(append(command, "wrong.json")...); err == nil || !strings.Contains(text, "orders") {
				t.Errorf("it accepts a document with a method that is not one: %v\n%s", err, text)
			}
		})
	}
}

// The lock file names no registry: each user's own is asked.
func TestLockFileNamesNoRegistry(t *testing.T) {
	text, err := os.ReadFile("testdata/validators/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"resolved"`) || !strings.Contains(string(text), `"integrity"`) {
		t.Error("package-lock.json has the addresses of packages.\nTry: npm install --package-lock-only --omit-lockfile-registry-resolved")
	}
}
