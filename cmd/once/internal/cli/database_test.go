package cli_test

import (
	"testing"

	"github.com/oncelib/once/cmd/once/internal/cli"
)

// TestPastedCommandHasNoPassword: a command that is shown can be pasted, and has no password.
func TestPastedCommandHasNoPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, name, paste string }{
		{"postgres://ada@h/x", "postgres://ada@h/x", "postgres://ada@h/x"},
		{"postgres://ada:secret@h/x", "postgres://ada:xxxxx@h/x", "URL"},
		{"postgres://h/x?password=secret", "postgres://h/x?password=xxxxx", "URL"},
		{"sqlite:a b", "sqlite:a b", "'sqlite:a b'"},
		{"mysql://ada@h/x", "mysql://ada@h/x", "mysql://ada@h/x"},
		{"mariadb://ada:secret@h:1/x", "mariadb://ada:xxxxx@h:1/x", "URL"},
	} {
		if src, err := cli.ParseSource(c.url); err != nil || src.Name != c.name || src.Paste != c.paste {
			t.Errorf("%s: %+v, %v", c.url, src, err)
		}
	}
}
