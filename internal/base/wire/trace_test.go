package wire_test

import (
	"testing"

	"github.com/oncelib/once/internal/base/wire"
)

// TestTraceIsOneLine: one line that is a traceparent. Of two, none can be believed.
func TestTraceIsOneLine(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := wire.Trace([]string{trace}); got != trace {
		t.Errorf("%q", got)
	}
	for _, lines := range [][]string{nil, {""}, {trace, trace}} {
		if got := wire.Trace(lines); got != "" {
			t.Errorf("%q is %q", lines, got)
		}
	}
}
