package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoDatabase: an error says what to look at, once, and never in a line that
// cannot be pasted because the password was taken out of it.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	const down = "postgres://ada:secret@127.0.0.1:1/x"
	for _, c := range []struct{ args, try string }{
		{"migrate status --db sqlite:" + text, "SQLite file"},
		{"migrate up --db sqlite:" + text, "SQLite file"},
		{"keys show k --db sqlite:" + text, "SQLite file"},
		{"demo serve --listen 127.0.0.1:0 --db sqlite:" + text, "SQLite file"},
		{"demo --ops 1 --db sqlite:" + text, "SQLite file"},
		{"migrate up --db " + down, "running"},
		{"keys show k --db " + down, "running"},
		{"demo serve --listen 127.0.0.1:0 --db " + down, "running"},
		{"demo --db " + down, "running"},
		{"migrate up --db mysql://ada:secret@127.0.0.1:1/x", "running"},
		{"demo --db mysql://ada:secret@127.0.0.1:1/x", "running"},
	} {
		code := 4
		if strings.HasPrefix(c.args, "demo --ops") { // the service that it has started was not reached
			code = 1
		}
		o := run(t, strings.Fields(c.args)...).want(t, code)
		_, try, _ := strings.Cut(o.stderr, "\nTry: ")
		if !strings.Contains(try, c.try) || strings.Contains(try, "Try: ") || strings.Contains(o.stderr, "secret") || strings.Contains(try, "xxxxx") {
			t.Errorf("once %s: %s", c.args, o.stderr)
		}
	}
}

// TestMySQLSaysWhatIsWrong: where MySQL or MariaDB tells why it is not opened, the advice fits that.
func TestMySQLSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(t *testing.T, isMySQL bool) {
		m, name := sharedMySQL(t, isMySQL)
		url := "mysql://root@" + m.Addr() + "/"
		for _, c := range []struct {
			url, says, try string
			code           int
		}{
			{"mysql://stranger:secret@" + m.Addr() + "/" + name, "Access denied", "the password", 4},
			{url + "none", "Unknown database", "create database", 4},
			{url + name + "?foo=1", "Unknown system variable", "tls=true", 4},
			{url, "names no database on the server", "mysql://user@host/name", 2},
			{url + name + "?ssl-mode=REQUIRED", "ssl-mode is a parameter of other programs", "?tls=true", 2},
		} {
			for _, command := range []string{"migrate status", "doctor", "demo --ops 1"} {
				o := run(t, append(strings.Fields(command), "--db", c.url)...).want(t, c.code)
				what, try, _ := strings.Cut(o.stderr, "\nTry: ")
				if !strings.Contains(what, c.says) || !strings.Contains(try, c.try) || strings.Contains(what, "..") || strings.Contains(o.stderr, "secret") {
					t.Errorf("once %s --db %s: %s", command, c.url, o.stderr)
				}
			}
		}
		tls := url + name + "?tls=true"
		want := "without tls=true"
		if isMySQL { // it has made itself a certificate
			want = "tls=skip-verify"
		}
		if o := run(t, "migrate", "status", "--db", tls).want(t, 4); !strings.Contains(o.stderr, want) {
			t.Errorf("%s", o.stderr)
		}
	})
}

// TestNothingLeft: a command that fails leaves nothing in the folder for such things.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"demo serve --listen 256.0.0.1:1", "demo serve --wait -1s", "demo --log /dev/null/x"} {
		cmd := program(t, strings.Fields(args)...)
		tmp := t.TempDir()
		cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
		if err := cmd.Run(); err == nil {
			t.Errorf("once %s: no error", args)
		}
		if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
			t.Errorf("once %s leaves %v, %v", args, left, err)
		}
	}
}
