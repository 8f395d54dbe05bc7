// Package outages keeps a log short during an outage: each error is written once a minute, and the end of the outage is written too.
package outages

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	every = time.Minute
	calm  = 5 * time.Second // a success ends an outage only if nothing has failed for this time: one of several workers may succeed between two failures
	most  = 64              // errors that are remembered for one subject, and subjects; all further ones are treated as one
)

// Log decides which lines about outages are written to a log. The zero value is ready to use.
type Log struct {
	mu    sync.Mutex
	fails map[string]*failing // by subject, such as "database"
	any   atomic.Bool         // fails is not empty; so a success without an outage costs almost nothing
}

// failing is a subject that fails.
type failing struct {
	first, last time.Time
	errors      map[string]line
}

type line struct {
	written time.Time
	omitted int // since then
}

// Fails reports whether the error of a subject is to be written now: the first time, and then once a minute. If equal errors were omitted since then,
// the attribute "omitted" says how many.
func (l *Log) Fails(subject string, err error, now time.Time) (omitted []slog.Attr, ok bool) {
	text := "unknown"
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails == nil {
		l.fails = map[string]*failing{}
	}
	if l.fails[subject] == nil && len(l.fails) >= most {
		// A subject that failed long ago, such as a topic without further messages, must not take the place of this one.
		maps.DeleteFunc(l.fails, func(_ string, f *failing) bool { return now.Sub(f.last) >= every })
		if len(l.fails) >= most {
			subject = ""
		}
	}
	f := l.fails[subject]
	if f == nil {
		f = &failing{first: now, errors: map[string]line{}}
		l.fails[subject] = f
		l.any.Store(true)
	}
	f.last = now
	old, known := f.errors[text]
	if !known && len(f.errors) >= most {
		f.forget(now)
		// A text that contains a number that always changes must not fill the memory or the log.
		if len(f.errors) >= most {
			text = ""
			old, known = f.errors[text]
		}
	}
	if known && now.Sub(old.written) < every {
		old.omitted++
		f.errors[text] = old
		return nil, false
	}
	f.errors[text] = line{written: now}
	if old.omitted > 0 {
		omitted = []slog.Attr{slog.Int("omitted", old.omitted)}
	}
	return omitted, true
}

// forget removes the errors whose next line would be written anyway.
func (f *failing) forget(now time.Time) {
	for text, old := range f.errors {
		if now.Sub(old.written) >= every {
			delete(f.errors, text)
		}
	}
}

// Works notes a success of a subject. If the success ends an outage, over is true, and the attribute "lasted" is the time from the first failure to the
// last one.
func (l *Log) Works(subject string, now time.Time) (lasted slog.Attr, over bool) {
	if !l.any.Load() {
		return slog.Attr{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fails[subject]
	if f == nil || now.Sub(f.last) < calm {
		return slog.Attr{}, false
	}
	delete(l.fails, subject)
	l.any.Store(len(l.fails) > 0)
	return slog.Duration("lasted", f.last.Sub(f.first)), true
}
