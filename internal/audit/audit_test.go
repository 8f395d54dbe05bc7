package audit

import "testing"

func TestKeyHashes(t *testing.T) {
	for key, want := range map[string]int{"k": 1, "sha256-": 1, "sha256-xx": 1, "sha256-LCa0a2j_xo_5m0U8HTBBNBNCLXBkg7-g-YpeiGJm564": 2} {
		if got := KeyHashes(key); len(got) != want {
			t.Errorf("%s: %q", key, got)
		}
	}
	if got := KeyHashes("sha256-LCa0a2j_xo_5m0U8HTBBNBNCLXBkg7-g-YpeiGJm564")[0]; got != "2c26b46b68ffc68f" { // of "foo"
		t.Error(got)
	}
}
