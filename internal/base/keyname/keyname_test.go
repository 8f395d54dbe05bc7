package keyname_test

import (
	"testing"

	"github.com/oncelib/once/internal/base/keyname"
)

func TestHashesOfAKey(t *testing.T) {
	for key, want := range map[string]int{"k": 1, "sha256-": 1, "sha256-xx": 1, "sha256-LCa0a2j_xo_5m0U8HTBBNBNCLXBkg7-g-YpeiGJm564": 2} {
		if got := keyname.Hashes(key); len(got) != want {
			t.Errorf("%s: %q", key, got)
		}
	}
	if got := keyname.Hashes("sha256-LCa0a2j_xo_5m0U8HTBBNBNCLXBkg7-g-YpeiGJm564")[0]; got != "2c26b46b68ffc68f" { // of "foo"
		t.Error(got)
	}
}
