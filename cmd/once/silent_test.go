package main

import (
	"net"
	"strings"
	"testing"
)

// TestSilentServer: a server that accepts connections and says nothing is not waited for.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the connections wait in its queue
	for _, scheme := range []string{"postgres", "mysql"} {
		url := scheme + "://ada:secret@" + l.Addr().String() + "/x"
		for _, command := range []string{"keys show k", "keys list", "migrate up", "migrate status", "audit list", "sweep", "doctor"} {
			args := append(strings.Fields(command), "--db", url, "--timeout", "200ms")
			o := run(t, args...).want(t, 4)
			what, try, _ := strings.Cut(o.stderr, "\nTry: ")
			if !strings.Contains(what, "the server has not answered within 200ms") || !strings.Contains(try, "--timeout") || strings.Contains(o.stderr, "secret") {
				t.Errorf("once %s, %s: %s", command, scheme, o.stderr)
			}
		}
	}
	run(t, "keys", "show", "k", "--db", "sqlite:x", "--timeout", "0s").want(t, 2)
}

// TestPasswordsAreNotEchoed: what the command does not understand may have a password.
func TestPasswordsAreNotEchoed(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"ada:secret@tcp(127.0.0.1:3306)/app", "ada:secret@/app", "host=h user=ada password=secret", "postgres://ada:secret@h:port/x", "mysql://ada:secret@:x/y", "redis://:secret@h"} {
		for _, command := range []string{"keys show k", "doctor", "migrate up", "demo --ops 1"} {
			o := run(t, append(strings.Fields(command), "--db", dsn)...)
			if o.code == 0 || strings.Contains(o.stderr+o.stdout, "secret") || !strings.Contains(o.stderr, "Try: ") {
				t.Errorf("once %s --db %s: %d %s%s", command, dsn, o.code, o.stdout, o.stderr)
			}
		}
	}
}
