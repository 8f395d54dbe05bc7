//go:build linux

package testenv

import (
	"net/url"
	"strings"
	"testing"
)

func TestNewDatabase(t *testing.T) {
	t.Parallel()
	pg := SharedPostgres(t)
	if SharedPostgres(t) != pg {
		t.Fatal("two shared servers")
	}
	var name string
	t.Run("It's own, DATABASE/"+strings.Repeat("long ", 20), func(t *testing.T) {
		first, second := NewDatabase(t), NewDatabase(t)
		if first == second {
			t.Fatal("the same database twice:", first)
		}
		parsed, err := url.Parse(first)
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimPrefix(parsed.Path, "/")
		if got, err := pg.Query(t.Context(), name, "select current_database()"); got != name || err != nil {
			t.Fatalf("current_database() = %q, %v, want %q", got, err, name)
		}
	})
	if got := query(t, pg, "select count(*) from pg_database where datname = '"+name+"'"); got != "0" {
		t.Errorf("database %q outlived its test", name)
	}
}
