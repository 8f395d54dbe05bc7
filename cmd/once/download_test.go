package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// TestFirstDownload: what "go run ./cmd/once demo" downloads into an empty module cache is at most 60 MB, of which SQLite alone has 42. NATS would bring 43
// more, Kafka and OpenTelemetry others: they are in the full build.
func TestFirstDownload(t *testing.T) {
	t.Parallel()
	const most = 60_000_000
	ask := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, &stderr)
		}
		return string(out)
	}
	cache := filepath.Join(strings.TrimSpace(ask("env", "GOMODCACHE")), "cache", "download")
	sizes, sum := map[string]int64{}, int64(0)
	for line := range strings.Lines(ask("list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{if not .Replace}}{{.Path}} {{.Version}}{{end}}{{end}}{{end}}", ".")) {
		module, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		if _, known := sizes[module]; !ok || known {
			continue
		}
		info, err := os.Stat(filepath.Join(cache, filepath.FromSlash(escaped(module)), "@v", escaped(version)+".zip"))
		if err != nil {
			t.Fatalf("%v. Try: go mod download", err)
		}
		sizes[module] = info.Size()
		sum += info.Size()
	}
	if sizes["modernc.org/sqlite"] == 0 || sum < 40_000_000 {
		t.Errorf("vacuous: %d bytes in %v", sum, sizes)
	}
	if sum > most {
		t.Errorf("%d bytes, and %d at most are wanted: %v. Try: what few need in cmd/once/full", sum, most, sizes)
	}
}

// escaped is a module in the cache: an upper-case letter is "!" and a lower-case one there.
func escaped(module string) string {
	var b strings.Builder
	for _, r := range module {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
