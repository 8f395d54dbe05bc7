// Package repeated keeps repeated lines out of a log: during an outage, each line is written once a minute.
package repeated

import (
	"log/slog"
	"sync"
	"time"
)

const (
	every = time.Minute
	most  = 64 // texts that are remembered; all other texts together are treated as one
)

// Lines are the lines of one log. The zero value is ready to use.
type Lines struct {
	mu    sync.Mutex
	texts map[string]line
}

type line struct {
	written time.Time
	omitted int // since then
}

// Pass reports whether the line with this text may be written now: the first time, and then once a minute. If lines with this text were
// omitted since then, Pass also returns the attribute "omitted", which says how many.
func (l *Lines) Pass(text string, now time.Time) (omitted []slog.Attr, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, known := l.texts[text]
	if !known && len(l.texts) >= most {
		l.forget(now)
		// A text that contains a number that always changes must not fill the memory or the log.
		if len(l.texts) >= most {
			text = ""
			old, known = l.texts[text]
		}
	}
	if known && now.Sub(old.written) < every {
		old.omitted++
		l.texts[text] = old
		return nil, false
	}
	if l.texts == nil {
		l.texts = map[string]line{}
	}
	l.texts[text] = line{written: now}
	if old.omitted > 0 {
		omitted = []slog.Attr{slog.Int("omitted", old.omitted)}
	}
	return omitted, true
}

// forget removes the texts whose next line would be written anyway.
func (l *Lines) forget(now time.Time) {
	for text, old := range l.texts {
		if now.Sub(old.written) >= every {
			delete(l.texts, text)
		}
	}
}
