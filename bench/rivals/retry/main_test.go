package main

import (
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func TestTableShowsFailedChecks(t *testing.T) {
	columns := make([][]roundtrippertest.Result, len(subjects))
	for i := range columns {
		for j, c := range roundtrippertest.Checks() {
			r := roundtrippertest.Result{Check: c.Name, Passed: i == 0 || j > 0}
			if !r.Passed {
				r.Note = "Post \"http://127.0.0.1:1234\":\nrefused"
			}
			columns[i] = append(columns[i], r)
		}
	}
	text := table(columns)
	for _, want := range []string{"| yes | **no** |", "- KeylessPOST503: Post \"http://server\":; refused", "Nothing."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// All do the same work, or there is no table.
func TestSpeedMeasuresEqualWork(t *testing.T) {
	text, err := race{rounds: 1, slice: 100 * time.Microsecond}.speed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| once |", "sethvargo/go-retry v", "resty 3 v", "| POST, one retry, loopback, of two bare requests |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestRaceFailsIfTheWorkIsNotDone(t *testing.T) {
	calls := int64(0)
	lazy := &runner{name: "lazy", per: 2, calls: func() int64 { return calls }, run: func(n int) error { calls += int64(n); return nil }}
	if err := (race{rounds: 1, slice: time.Microsecond}).run([]*runner{lazy}); err == nil || !strings.Contains(err.Error(), "lazy has not done the same work") {
		t.Errorf("%v", err)
	}
}
