package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestSweepDeletesExpiredKeys: what has expired goes, and is told; the rest stays.
func TestSweepDeletesExpiredKeys(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		if o := run(t, "sweep", "--db", url).want(t, unready(url)); !strings.Contains(o.stderr, "Try: ") {
			t.Errorf("%s", o.stderr)
		}
		run(t, "migrate", "up", "--db", url).want(t, 0)
		prepare(t, url)
		if o := run(t, "sweep", "--db", url).want(t, 0); !strings.HasPrefix(o.stdout, "1 expired operation was deleted from ") {
			t.Errorf("%s", o.stdout)
		}
		var r struct {
			Rows  int
			Error string
		}
		o := run(t, "sweep", "--db", url, "-o", "json", "--batch", "1").want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || r.Rows != 0 || r.Error != "" {
			t.Errorf("%v: %s", err, o.stdout)
		}
		run(t, "keys", "show", "expired", "--db", url).want(t, 3)
		for _, key := range []string{"plain", "running"} {
			run(t, "keys", "show", key, "--db", url).want(t, 0)
		}
		run(t, "sweep", "--db", url, "--rate", "0").want(t, 2)
	})
}
