package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestHomeMoveIsKilled: the process of once home move is killed at each call of the system by which it writes to a database or to the file of pins.
// The tenant then lives in one region or in none, the doctor says how to complete the move if one has begun, and the same command completes it: the
// operation and its pin are at the target, and the operation nowhere else.
func TestHomeMoveIsKilled(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "strace")
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		urls  func() string
		calls []string
	}{
		"SQLite":     {func() string { return sqliteURL(t) }, []string{"pwrite64", "fsync", "renameat", "write"}},
		"PostgreSQL": {func() string { return testenv.NewDatabase(t) }, []string{"write", "renameat"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, pins := filepath.Join(dir, "regions.json"), filepath.Join(dir, "pins.json")
			urls := map[string]string{"eu": c.urls(), "us": c.urls()}
			for _, url := range urls {
				open(t, url)
			}
			text, err := json.Marshal(urls)
			if err == nil {
				err = os.WriteFile(file, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			move := func(to string) []string {
				return []string{"home", "move", "acme", to, "--regions", file, "--pins", pins}
			}
			run(t, move("eu")...).want(t, 0)
			open(t, urls["eu"]).do(t, "acme/payments", "k")
			first, step := testenv.Stride(t, 3)
			at, killed, ownerless, seen := "eu", 0, 0, 0
			for _, call := range c.calls {
				for n := first; ; n += step {
					to := map[string]string{"eu": "us", "us": "eu"}[at]
					cmd := program(t, move(to)...)
					cmd.Args = slices.Concat([]string{strace, "--follow-forks", "--quiet=all", "--output=/dev/null", "--trace=" + call, fmt.Sprintf("--inject=%s:signal=SIGKILL:when=%d", call, n), "--", cmd.Path}, cmd.Args[1:])
					cmd.Path = strace
					out, err := cmd.CombinedOutput()
					if err == nil {
						at = to
						break
					}
					if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
						t.Fatalf("%s %d: %v: %s", call, n, err, out)
					}
					killed++
					owners := homeOwners(t, file)
					if len(owners) > 1 {
						t.Fatalf("%s %d: owned by %q", call, n, owners)
					}
					if len(owners) == 0 {
						ownerless++
					}
					for _, region := range slices.Sorted(maps.Keys(urls)) {
						if f := examined(t, urls[region])["home_moves"]; f.Verdict != "" {
							seen++
							f.want(t, region, warn, "")
							if !strings.Contains(f.Try, "once home move acme "+to) {
								t.Errorf("%s %d: in %s: %s", call, n, region, f.Try)
							}
						}
					}
					run(t, move(to)...).want(t, 0)
					for region, code := range map[string]int{to: 0, at: 3} {
						run(t, "keys", "show", "k", "--scope", "acme/payments", "--db", urls[region]).want(t, code)
					}
					if got := homeOwners(t, file); !slices.Equal(got, []string{to}) {
						t.Fatalf("%s %d: completed, and owned by %q", call, n, got)
					}
					if text, err := os.ReadFile(pins); err != nil || !strings.Contains(string(text), `"region": "`+to+`"`) {
						t.Fatalf("%s %d: pins: %s, %v", call, n, text, err)
					}
					at = to
				}
			}
			testenv.Reportf(t, "killed %d times; no region was the owner %d times; the doctor saw a move %d times", killed, ownerless, seen)
			if killed < 20/step || ownerless == 0 || seen == 0 {
				t.Errorf("vacuous: killed %d times, without an owner %d times, seen by the doctor %d times", killed, ownerless, seen)
			}
		})
	}
}

// homeOwners are the regions that own acme and execute for it, or did so until a move began.
func homeOwners(t *testing.T, regions string) (list []string) {
	t.Helper()
	var page struct {
		Items []struct {
			Region string
			Owned  bool
		}
	}
	if err := json.Unmarshal([]byte(run(t, "home", "show", "acme", "--regions", regions, "-o", "json").want(t, 0).stdout), &page); err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Items {
		if s.Owned {
			list = append(list, s.Region)
		}
	}
	return list
}
