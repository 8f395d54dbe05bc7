package main

import (
	"strings"
	"testing"

	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func TestTable(t *testing.T) {
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
