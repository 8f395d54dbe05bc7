package cli_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

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

// TestMissingTableIsNoOutage: a database that answers that a table is missing is reached. The exit code says so, and the advice is to migrate.
func TestMissingTableIsNoOutage(t *testing.T) {
	t.Parallel()
	src, err := cli.ParseSource("sqlite:a.db")
	if err != nil {
		t.Fatal(err)
	}
	for says, reached := range map[string]bool{"SQL logic error: no such table: once_operation (1)": true, "unable to open database file (14)": false} {
		err := src.Failed("open", errors.New(says))
		kind := fmt.Sprintf("%T", err) // the exit code depends on it
		if (kind == "*cli.unreachableError") == reached || strings.Contains(err.Error(), "Try: once migrate up") != reached {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestRefusedSQLNeedsNoPrivilege: if MySQL or MariaDB refuses the SQL of a migration, the advice does not speak of privileges of the user.
func TestRefusedSQLNeedsNoPrivilege(t *testing.T) {
	t.Parallel()
	src, err := cli.ParseSource("mysql://ada@h/x")
	if err != nil {
		t.Fatal(err)
	}
	for code, try := range map[uint16]string{
		1901: "Try: use a tested version of MySQL or MariaDB", // MariaDB: a function that the expression may not use
		3770: "Try: use a tested version of MySQL or MariaDB", // MySQL: a function that a default may not use
		1142: "Try: use the URL of a user who has the missing privilege",
	} {
		if err := src.Failed("migrate", &mysql.MySQLError{Number: code, Message: "refused"}); !strings.Contains(err.Error(), try) {
			t.Errorf("%d: %v, want %q", code, err, try)
		}
	}
}
