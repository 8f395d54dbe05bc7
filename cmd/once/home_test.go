package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHomeCommands: a new tenant gets its home, moves with its rows and operations, and a move whose program fails is completed by the
// same command. The file of pins follows, and never goes back.
func TestHomeCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	urls := map[string]string{"ap": sqliteURL(t), "eu": sqliteURL(t), "us": sqliteURL(t), "down": "sqlite:" + filepath.Join(dir, "none", "at-all.db")}
	file, pins, program, log := filepath.Join(dir, "regions.json"), filepath.Join(dir, "pins.json"), filepath.Join(dir, "rows"), filepath.Join(dir, "log")
	for _, name := range []string{"ap", "eu", "us"} {
		open(t, urls[name])
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	regions := func(names ...string) {
		t.Helper()
		list := map[string]string{}
		for _, n := range names {
			list[n] = urls[n]
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		write(file, string(text), 0o600)
	}
	says := func(code int, text string, args ...string) {
		t.Helper()
		o := run(t, append(append([]string{"home"}, args...), "--regions", file)...).want(t, code)
		if !strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("once home %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
		}
		if code != 0 && strings.Count(o.stderr, "Try: ") != 1 {
			t.Errorf("once home %v has no advice, or more than one: %s", args, o.stderr)
		}
	}
	says(2, "names no regions", "show")
	regions("ap", "eu", "us", "down")
	says(1, "region down", "move", "acme", "eu", "--pins", pins) // it might be there
	regions("ap", "eu", "us")
	says(3, "no region has", "show", "acme")
	says(2, "TENANT or REGION is missing", "move", "acme")
	says(1, "this program has no database for the region", "move", "acme", "mars")
	says(1, "cannot be the name of a tenant", "move", "a/b", "eu")
	says(0, "the region of acme is eu", "move", "acme", "eu", "--pins", pins)
	open(t, urls["eu"]).do(t, "acme/payments", "k")
	open(t, urls["eu"]).do(t, "other/payments", "k")
	says(0, "eu", "show", "acme")

	write(program, "#!/bin/sh\necho \"$ONCE_TENANT $ONCE_FROM $ONCE_TO $ONCE_FROM_DB $ONCE_TO_DB\" >> "+log+"\nexit 7\n", 0o700)
	says(1, "exit status 7", "move", "acme", "us", "--rows", program, "--pins", pins)
	says(0, "To complete the move, run: once home move acme us", "show")
	says(1, "has not ended", "move", "acme", "ap", "--pins", pins)
	write(program, "#!/bin/sh\necho \"$ONCE_TENANT $ONCE_FROM $ONCE_TO $ONCE_FROM_DB $ONCE_TO_DB\" >> "+log+"\n", 0o700)
	regions("eu", "us", "down")
	says(1, "region down", "move", "acme", "us") // it may be the owner
	regions("eu", "us")
	says(0, "the region of acme is us", "move", "acme", "us", "--rows", program, "--pins", pins)
	regions("eu", "us", "down")
	says(0, "the region of acme is us", "move", "acme", "us", "--rows", program, "--pins", pins) // which is known
	line := strings.Join([]string{"acme eu us", urls["eu"], urls["us"]}, " ") + "\n"
	if text, err := os.ReadFile(log); err != nil || string(text) != line+line {
		t.Errorf("the program has been run with %s, %v", text, err)
	}
	for name, want := range map[string]string{"us": "0", "eu": "3"} {
		run(t, "keys", "show", "k", "--scope", "acme/payments", "--db", urls[name]).want(t, int(want[0]-'0'))
	}
	run(t, "keys", "show", "k", "--scope", "other/payments", "--db", urls["eu"]).want(t, 0)
	var got map[string]struct {
		Region string
		Epoch  int64
	}
	text, err := os.ReadFile(pins)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if p := got["acme"]; err != nil || p.Region != "us" || p.Epoch < 3 {
		t.Errorf("the file of pins says %s, %v", text, err)
	}
	says(1, "region down", "show", "acme")
	regions("ap", "eu", "us")
	says(0, `"items": [`, "show", "acme", "-o", "json")
	says(0, `"owned":true`, "show", "acme", "-o", "jsonl")
}
