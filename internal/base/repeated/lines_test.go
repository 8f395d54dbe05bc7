package repeated_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/repeated"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestEachLineIsWrittenOnceAMinute: the first line is written immediately, and each later line says how many lines were omitted before it.
func TestEachLineIsWrittenOnceAMinute(t *testing.T) {
	var lines repeated.Lines
	written, omitted := 0, 0
	for i := range 180 { // each second for three minutes
		attrs, ok := lines.Pass("the database is down", begin.Add(time.Duration(i)*time.Second))
		if ok {
			written++
		}
		for _, a := range attrs {
			if a.Key == "omitted" {
				omitted += int(a.Value.Int64())
			}
		}
		if want := i%60 == 0; ok != want {
			t.Errorf("second %d: written: %v, want %v", i, ok, want)
		}
	}
	if written != 3 || omitted != 118 {
		t.Errorf("%d lines were written, and %d omitted; want 3 and 118", written, omitted)
	}
}

// TestALineDoesNotHideAnother: another text is written immediately, even while a text repeats.
func TestALineDoesNotHideAnother(t *testing.T) {
	var lines repeated.Lines
	for _, text := range []string{"the database is down", "permission denied"} {
		if _, ok := lines.Pass(text, begin); !ok {
			t.Errorf("%q was omitted", text)
		}
	}
}

// TestTextsThatNeverRepeat: texts that all differ, for example because of a number, fill neither the log nor the memory.
func TestTextsThatNeverRepeat(t *testing.T) {
	var lines repeated.Lines
	written, total := 0, 10_000
	for i := range total {
		if _, ok := lines.Pass("no connection from port "+strconv.Itoa(i), begin.Add(time.Duration(i)*time.Millisecond)); ok {
			written++
		}
	}
	if written == 0 || written > 100 {
		t.Errorf("%d of %d lines were written", written, total)
	}
	// An hour later all is forgotten.
	if _, ok := lines.Pass("the database is down", begin.Add(time.Hour)); !ok {
		t.Error("a new line was omitted an hour later")
	}
}
