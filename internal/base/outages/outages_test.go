package outages_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/outages"
)

var (
	begin   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	errDown = errors.New("connection refused")
)

// TestEachErrorIsWrittenOnceAMinute: the first line is written immediately, and each later line says how many lines were omitted before it.
func TestEachErrorIsWrittenOnceAMinute(t *testing.T) {
	var log outages.Log
	written, omitted := 0, 0
	for i := range 180 { // each second for three minutes
		attrs, ok := log.Fails("database", errDown, begin.Add(time.Duration(i)*time.Second))
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

// TestAnErrorDoesNotHideAnother: another error, or the same error of another subject, is written immediately, even while an error repeats.
func TestAnErrorDoesNotHideAnother(t *testing.T) {
	var log outages.Log
	for _, c := range []struct {
		subject string
		err     error
	}{{"database", errDown}, {"database", errors.New("permission denied")}, {"topic refunds", errDown}, {"topic orders", nil}} {
		if _, ok := log.Fails(c.subject, c.err, begin); !ok {
			t.Errorf("%q of %s was omitted", c.err, c.subject)
		}
	}
}

// TestErrorsThatNeverRepeat: errors that all differ, for example because of a number, fill neither the log nor the memory. The same is true for subjects.
func TestErrorsThatNeverRepeat(t *testing.T) {
	for name, fails := range map[string]func(*outages.Log, int, time.Time) bool{
		"errors": func(l *outages.Log, i int, now time.Time) bool {
			_, ok := l.Fails("database", errors.New("no connection from port "+strconv.Itoa(i)), now)
			return ok
		},
		"subjects": func(l *outages.Log, i int, now time.Time) bool {
			_, ok := l.Fails("topic "+strconv.Itoa(i), errDown, now)
			return ok
		},
	} {
		var log outages.Log
		written, total := 0, 10_000
		for i := range total {
			if fails(&log, i, begin.Add(time.Duration(i)*time.Millisecond)) {
				written++
			}
		}
		if written == 0 || written > 100 {
			t.Errorf("%s: %d of %d lines were written", name, written, total)
		}
		// An hour later, none of them takes the place of new ones.
		for _, subject := range []string{"topic new", "topic newer"} {
			if _, ok := log.Fails(subject, errDown, begin.Add(time.Hour)); !ok {
				t.Errorf("%s: an hour later the first line of %s was omitted", name, subject)
			}
		}
	}
}

// TestTheEndOfAnOutage: the first success after a calm time ends the outage, once, and later failures are a new outage. A success between two failures
// ends nothing.
func TestTheEndOfAnOutage(t *testing.T) {
	var log outages.Log
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	if _, over := log.Works("database", at(0)); over {
		t.Error("an outage has ended that never began")
	}
	log.Fails("database", errDown, at(0))
	if _, over := log.Works("database", at(1)); over {
		t.Error("the outage was over between two failures")
	}
	log.Fails("database", errDown, at(30))
	log.Fails("topic orders", errDown, at(30))
	lasted, over := log.Works("database", at(40))
	if !over || lasted.Key != "lasted" || lasted.Value.Duration() != 30*time.Second {
		t.Errorf("over: %v, %v; want the outage of 30 s to be over", over, lasted)
	}
	if _, over := log.Works("database", at(41)); over {
		t.Error("the outage has ended twice")
	}
	if _, over := log.Works("topic orders", at(41)); !over {
		t.Error("the outage of the topic has not ended")
	}
	if _, ok := log.Fails("database", errDown, at(42)); !ok {
		t.Error("the first error of a new outage was omitted")
	}
}
