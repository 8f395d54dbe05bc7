package wire_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/wire"
)

func FuzzTimeoutIsReadOrRefused(f *testing.F) {
	for _, s := range []string{"", "0", "1500", "1.5s", "-1", "9223372036854775807", "9000000000000", "1e3", "60 s"} {
		f.Add(s, false)
	}
	f.Add("1", true)
	f.Fuzz(func(t *testing.T, value string, twice bool) {
		h := http.Header{"X-Request-Timeout": {value}}
		if twice {
			h.Add("X-Request-Timeout", value)
		}
		d, ok := wire.Timeout(h)
		if ok && (d <= 0 || twice) {
			t.Errorf("%q is %v", value, d)
		}
	})
}

func TestTimeoutHeader(t *testing.T) {
	for value, want := range map[string]time.Duration{"1500": 1500 * time.Millisecond, "1.5s": 1500 * time.Millisecond} {
		if d, ok := wire.Timeout(http.Header{"X-Request-Timeout": {value}}); !ok || d != want {
			t.Errorf("%q is %v, %v", value, d, ok)
		}
	}
	if d, ok := wire.Timeout(nil); !ok || d != 0 {
		t.Errorf("nothing is %v, %v", d, ok)
	}
}
