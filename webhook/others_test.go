package webhook

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// languages are receivers in other languages, each with a program that prints the ID of each vector, or "refused".
var languages = map[string]struct {
	program, file string
	run           string // appended to the file
}{
	"Python": {"python3", "receive.py", `
import json, sys
for v in json.load(open(sys.argv[1])):
    try:
        print(verify({n: t for n, t in v["headers"]}, v["body"].encode(), v["secrets"], lambda: v["now"]))
    except Exception:
        print("refused")
`},
	"Node": {"node", "receive.mjs", `
import { readFileSync } from "node:fs";
for (const v of JSON.parse(readFileSync(process.argv[2]))) {
  try {
    console.log(verify(Object.fromEntries(v.headers), Buffer.from(v.body), v.secrets, () => v.now));
  } catch (err) {
    console.log("refused");
  }
}
`},
}

// TestOtherLanguages: the receivers in docs/webhook-receive.md say of each vector of Standard Webhooks that they can read what this package says.
func TestOtherLanguages(t *testing.T) {
	var list []map[string]any
	var want []string
	for _, c := range vectors(t) {
		twice := slices.ContainsFunc(c.Headers, func(line [2]string) bool { return len(c.header().Values(line[0])) > 1 })
		public := slices.ContainsFunc(c.Secrets, func(s string) bool { return strings.HasPrefix(s, publicKeyName) })
		if c.Scheme != "standard" || twice || public {
			continue
		}
		list = append(list, map[string]any{"headers": c.Headers, "body": c.Body, "secrets": c.Secrets, "now": c.Now})
		if want = append(want, "refused"); c.Valid {
			want[len(want)-1] = c.ID
		}
	}
	text, err := json.Marshal(list)
	if err != nil || len(list) < 30 {
		t.Fatalf("%d vectors, %v", len(list), err)
	}
	page, err := os.ReadFile("../docs/webhook-receive.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			testenv.Need(t, l.program)
			source, err := os.ReadFile(filepath.Join("testdata", l.file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(page, bytes.TrimSpace(source)) {
				t.Errorf("docs/webhook-receive.md does not show testdata/%s", l.file)
			}
			dir := t.TempDir()
			file, vectors := filepath.Join(dir, l.file), filepath.Join(dir, "vectors.json")
			for path, content := range map[string][]byte{file: append(source, l.run...), vectors: text} {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), l.program, file, vectors)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(string(out)); !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Errorf("%v: %s, want %s", list[i], got[i], want[i])
					}
				}
				t.Errorf("%d answers to %d vectors", len(got), len(want))
			}
		})
	}
}
