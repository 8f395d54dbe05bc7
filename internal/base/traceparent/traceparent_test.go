package traceparent_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/base/traceparent"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	trace   = "00-" + traceID + "-b7ad6b7169203331-01"
)

// The vectors of W3C Trace Context, section 3.2, and of its test suite.
var traces = []struct{ name, value, want string }{
	{"sampled", trace, trace},
	{"not sampled", trace[:53] + "00", trace[:53] + "00"},
	{"flags of later levels", trace[:53] + "03", trace[:53] + "03"},
	{"empty", "", ""},
	{"short", trace[:54], ""},
	{"long", trace + "0", ""},
	{"version 00 with more fields", trace + "-what-the-future-will-be-like", ""},
	{"later version", "cc" + trace[2:], trace},
	{"later version, not sampled", "cc" + trace[2:53] + "fe", trace[:53] + "00"},
	{"later version, more flags", "cc" + trace[2:53] + "ff", trace},
	{"later version with more fields", "cc" + trace[2:] + "-what-the-future-will-be-like", trace},
	{"later version with an empty field", "cc" + trace[2:] + "-", trace},
	{"later version with more of no field", "cc" + trace[2:] + ".what", ""},
	{"version ff", "ff" + trace[2:], ""},
	{"version not hex", "zz" + trace[2:], ""},
	{"version in upper case", "CC" + trace[2:], ""},
	{"version of one digit", trace[1:], ""},
	{"trace id in upper case", strings.Replace(trace, traceID, strings.ToUpper(traceID), 1), ""},
	{"trace id not hex", strings.Replace(trace, "0af7", "0ag7", 1), ""},
	{"trace id of zeros", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", ""},
	{"parent id of zeros", "00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", ""},
	{"parent id in upper case", "00-" + traceID + "-B7AD6B7169203331-01", ""},
	{"other separators", strings.ReplaceAll(trace, "-", "_"), ""},
	{"first separator", "00_" + trace[3:], ""},
	{"last separator", trace[:52] + "_01", ""},
	{"flags not hex", trace[:53] + "0x", ""},
	{"space before", " " + trace, ""},
	{"space behind", trace + " ", ""},
	{"two in one line", trace + ", " + trace, ""},
}

func TestParseTraceparents(t *testing.T) {
	for _, v := range traces {
		if got := traceparent.Parse(v.value); got != v.want {
			t.Errorf("%s: %q gives %q, want %q", v.name, v.value, got, v.want)
		}
	}
	if traceparent.TraceID(trace) != traceID || traceparent.TraceID("") != "" || traceparent.TraceID(trace[1:]) != "" {
		t.Errorf("the trace id is %q", traceparent.TraceID(trace))
	}
}

func FuzzTraceparentIsParsedOrRefused(f *testing.F) {
	for _, v := range traces {
		f.Add(v.value)
	}
	form := regexp.MustCompile(`^[0-9a-f]{2}(-[0-9a-f]{32}-[0-9a-f]{16}-)[0-9a-f]{2}(-.*)?$`)
	f.Fuzz(func(t *testing.T, value string) {
		got := traceparent.Parse(value)
		match := form.FindStringSubmatch(strings.ReplaceAll(value, "\n", "."))
		if got == "" {
			return
		}
		if match == nil || len(got) != 55 || got[:2] != "00" || !strings.Contains(got, match[1]) {
			t.Fatalf("%q is %q", value, got)
		}
		if again := traceparent.Parse(got); again != got {
			t.Fatalf("%q is %q, and that is %q", value, got, again)
		}
	})
}
