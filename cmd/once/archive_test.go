package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
)

// TestArchiveIsVerifiedAndShown: what was swept can be verified, shown and looked at in a file of its own.
func TestArchiveIsVerifiedAndShown(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		run(t, "migrate", "up", "--db", url).want(t, 0)
		prepare(t, url)
		files := filepath.Join(dir, "archive")
		if o := run(t, "sweep", "--db", url, "--archive", files).want(t, 0); !strings.HasPrefix(o.stdout, "1 expired operation was deleted") {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "archive", "verify", files).want(t, 0); !strings.HasPrefix(o.stdout, "1 segments with 1 rows") {
			t.Errorf("%s", o.stdout)
		}
		o := run(t, "archive", "show", files, `"expired"`).want(t, 0)
		for _, s := range []string{"archived", "jobs", "value, 5 bytes", "would execute again"} {
			if !strings.Contains(o.stdout, s) {
				t.Errorf("archive show does not say %q:\n%s", s, o.stdout)
			}
		}
		var ops []operate.Operation
		o = run(t, "archive", "show", files, "expired", "-o", "json").want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &ops); err != nil || len(ops) != 1 || ops[0].State != "archived" {
			t.Errorf("%v: %s", err, o.stdout)
		}
		run(t, "archive", "show", files, "plain").want(t, 3)
		run(t, "archive", "show", files, "expired", "--scope", "other").want(t, 3)

		copied := filepath.Join(dir, "copy.db")
		run(t, "archive", "restore", files, copied).want(t, 0)
		if o := run(t, "keys", "show", "expired", "--db", "sqlite:"+copied).want(t, 0); !strings.Contains(o.stdout, "expired:") {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "archive", "restore", files, copied).want(t, 1); !strings.Contains(o.stderr, "Try: ") {
			t.Errorf("%s", o.stderr)
		}

		segments, err := filepath.Glob(filepath.Join(files, "*.gz"))
		if err != nil || len(segments) != 1 {
			t.Fatal(segments, err)
		}
		if err := os.Truncate(segments[0], 20); err != nil {
			t.Fatal(err)
		}
		var a struct{ Damaged []struct{ File string } }
		o = run(t, "archive", "verify", "-o", "json", files).want(t, 1)
		if err := json.Unmarshal([]byte(o.stdout), &a); err != nil || len(a.Damaged) != 1 {
			t.Errorf("%v: %s", err, o.stdout)
		}
		other := filepath.Join(dir, "other.db")
		if o := run(t, "archive", "restore", files, other).want(t, 1); !strings.Contains(o.stderr, "Try: once archive verify") {
			t.Errorf("%s", o.stderr)
		}
		if _, err := os.Stat(other); err == nil {
			t.Error("half a copy was left")
		}
		nothing := filepath.Join(dir, "nothing")
		for _, place := range []string{nothing, dir, segments[0]} {
			for _, args := range [][]string{{"verify", place}, {"show", place, "k"}, {"restore", place, nothing}} {
				o := run(t, append([]string{"archive"}, args...)...).want(t, 1)
				if !strings.Contains(o.stderr, place+" is not an archive, or its manifest is lost: ") || !strings.Contains(o.stderr, "\nTry: use the DIR that you gave to once sweep --archive") {
					t.Errorf("%v: %s", args, o.stderr)
				}
			}
		}
		if _, err := os.Stat(nothing); err == nil {
			t.Error("a copy of nothing was left")
		}
	})
}
