package wire_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/base/wire"
)

func TestAttemptNumbers(t *testing.T) {
	for value, want := range map[string]int{
		"1": 1, "2147483647": 2147483647, "2147483648": 0, "0": 0, "-1": 0, "+1": 0, "one": 0, "1x": 0, "": 0,
		strings.Repeat("0", 127) + "2": 2, strings.Repeat("0", 128) + "2": 0,
	} {
		if got := wire.Attempt([]string{value}); got != want {
			t.Errorf("%q is attempt %d, want %d", value, got, want)
		}
	}
	for _, lines := range [][]string{nil, {"1", "1"}, {" 1"}} {
		if got := wire.Attempt(lines); got != 0 {
			t.Errorf("%q is attempt %d", lines, got)
		}
	}
}
