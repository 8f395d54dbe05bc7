package retryhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/oncelib/once/oncehttp"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		value, date string
		want        time.Duration
		named       bool
	}{
		{"", "", 0, false},
		{"0", "", 0, true},
		{"1", "", time.Second, true},
		{"0120", "", 2 * time.Minute, true},
		{"9223372035", "", 9223372035 * time.Second, true},
		{"9223372036", "", math.MaxInt64, true},
		{"9223372037", "", math.MaxInt64, true},
		{"99999999999999999999999", "", math.MaxInt64, true},
		{"-5", "", 0, false},
		{"+5", "", 0, false},
		{"1.5", "", 1500 * time.Millisecond, true},
		{"0.25", "", 250 * time.Millisecond, true},
		{"2.", "", 2 * time.Second, true},
		{".5", "", 0, false},
		{"1.5e3", "", 0, false},
		{"1.5.1", "", 0, false},
		{"1.-5", "", 0, false},
		{"5s", "", 0, false},
		{"soon", "", 0, false},
		{"Sat, 21 Nov 2026 12:00:30 GMT", "", 30 * time.Second, true},
		{"Saturday, 21-Nov-26 12:00:30 GMT", "", 30 * time.Second, true},
		{"Sat Nov 21 12:00:30 2026", "", 30 * time.Second, true},
		{"Sat, 21 Nov 2026 12:00:30 UTC", "", 30 * time.Second, true},
		{"Sat, 21 Nov 2026 12:00:30 +0000", "Sat, 21 Nov 2026 12:00:20 UTC", 10 * time.Second, true},
		{"Sat, 21 Nov 2026 11:00:00 GMT", "", 0, true},
		{"Mon, 01 Jan 9999 00:00:00 GMT", "", math.MaxInt64, true},
		{"Sat, 21 Nov 2026 12:00:30 GMT", "Sat, 21 Nov 2026 12:00:20 GMT", 10 * time.Second, true}, // our clock is slow
		{"Sat, 21 Nov 2026 11:00:30 GMT", "Sat, 21 Nov 2026 11:00:20 GMT", 10 * time.Second, true}, // or fast
		{"Sat, 21 Nov 2026 12:00:30 GMT", "now", 30 * time.Second, true},
	} {
		h := http.Header{"Retry-After": {c.value}}
		if c.date != "" {
			h["Date"] = []string{c.date}
		}
		if got, named := retryAfter(h, now); got != c.want || named != c.named {
			t.Errorf("%q at %q: %v, %v, want %v, %v", c.value, c.date, got, named, c.want, c.named)
		}
	}
}

// The life of a key is counted by the clock of the wall, which goes on while a machine sleeps.
// The monotonic one, which a time has that time.Now returns, does not.
func TestKeysExpireByTheWallClock(t *testing.T) {
	r, err := http.NewRequestWithContext(WithKey(t.Context(), Key{Value: "k"}), http.MethodPost, "http://service.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := new(Transport).begin(r)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.expiry(); e.IsZero() || e != e.Round(0) { // == sees the monotonic reading
		t.Errorf("%v is compared by the monotonic clock", e)
	}
}

// retry-after-ms is more precise than what is beside it.
func TestRetryAfterMs(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1500": 1500 * time.Millisecond, "0.5": 500 * time.Microsecond, "soon": 7 * time.Second, "-1": 7 * time.Second, "0": 7 * time.Second,
		"9999999999999999999": math.MaxInt64,
	} {
		if got, _ := retryAfter(http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {value}}, now); got != want {
			t.Errorf("%s: %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "9223372037", "Sat, 21 Nov 2026 12:00:30 GMT", "Saturday, 21-Nov-26 12:00:30 GMT", "Sat Nov 21 12:00:30 2026"} {
		f.Add(s, "Sat, 21 Nov 2026 12:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		d, _ := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if d < 0 {
			t.Errorf("%q: %v", value, d)
		}
		if n := len(value); n > 0 && n < 10 && strings.Trim(value, "0123456789") == "" && d%time.Second != 0 {
			t.Errorf("%q: %v", value, d)
		}
	})
}

func TestParseProblem(t *testing.T) {
	for text, want := range map[string]problem{
		``:                               {},
		`no json`:                        {},
		`[]`:                             {},
		`{"code":"A","retryable":true}`:  {code: "A", again: true},
		`{"retryable":false,"code":"A"}`: {code: "A", final: true},
		`{"code":7,"retryable":"false"}`: {},
		`{"retryable":null}`:             {},
		`{"errors":[{"code":"inner"}],"code":"A"}`:      {code: "A"},
		`{"code":"A","retryable":false,"detail":"cut o`: {code: "A", final: true},
		`{"code":"A","code":"B"}`:                       {code: "B"},
	} {
		if got := parseProblem([]byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// The server's word for an operation in flight is the one that is looked for.
func TestCodeInFlight(t *testing.T) {
	if codeInFlight != oncehttp.ProblemInFlight {
		t.Errorf("%q is not %q", codeInFlight, oncehttp.ProblemInFlight)
	}
}

// Whatever is in a body: it is judged as its JSON says, and the caller reads all of it.
func FuzzPeekLeavesTheBodyWhole(f *testing.F) {
	f.Add([]byte(`{"code":"CONFLICT.idempotency.in_flight","retryable":true}`))
	f.Add([]byte(`{"retryable":false}`))
	f.Add(bytes.Repeat([]byte(`{"a":`), 30))
	f.Add(append([]byte(`{"code":"x","detail":"`), bytes.Repeat([]byte("y"), 100)...))
	const most = 80
	f.Fuzz(func(t *testing.T, body []byte) {
		resp := &http.Response{Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(iotest.OneByteReader(bytes.NewReader(body)))}
		p, err := peek(resp, most)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Equal(whole, body) {
			t.Fatalf("the caller reads %q of %q, %v", whole, body, err)
		}
		var said map[string]json.RawMessage
		if len(body) <= most && json.Unmarshal(body, &said) == nil && said != nil {
			if said := string(said["retryable"]); (said == "false") != p.final || (said == "true") != p.again {
				t.Errorf("%s: %+v", body, p)
			}
		}
	})
}

func TestPeekLeavesOthersAlone(t *testing.T) {
	resp := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(iotest.ErrReader(io.ErrClosedPipe))}
	if p, err := peek(resp, maxPeek); err != nil || p != (problem{}) {
		t.Errorf("%+v, %v", p, err)
	}
}
