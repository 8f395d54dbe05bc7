package rpc

import (
	"strings"
	"testing"

	"github.com/oncelib/once/internal/base/wire"
)

// TestNamesOfMetadata: HTTP and RPC call the same thing by the same name.
func TestNamesOfMetadata(t *testing.T) {
	for ours, theirs := range map[string]string{
		KeyHeader: wire.KeyHeader, AttemptHeader: wire.AttemptHeader, FirstSentHeader: wire.FirstSentHeader,
		StatusHeader: wire.StatusHeader, ReplayedHeader: wire.ReplayedHeader, RetentionHeader: wire.RetentionHeader,
	} {
		if ours != strings.ToLower(theirs) {
			t.Errorf("%s is %s over HTTP", ours, theirs)
		}
	}
}
