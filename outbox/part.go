package outbox

import (
	"time"

	"github.com/oncelib/once/internal/hold"
)

// part is what a lane remembers of a part that this process holds. It is a cache of what the
// database says: when in doubt it is thrown away, and the part is read from its beginning.
type part struct {
	hold.Part

	// Every message up to this id that was visible when it was read has been delivered, has
	// failed, or waits for something else that will bring it back. What commits
	// later below it is found by its successor, or by the sweep.
	mark int64

	// old is the mark as it was one or two sweeps ago, and next will be the old one.
	old, next int64

	loaded  bool               // failures are known
	failing map[int64]*failure // by id: those that are tried again
	stopped map[int64]*failure // by id: those that wait for a person
	told    bool               // that there are too many of those
	heads   map[stream]*failure
	behind  map[stream]struct{} // keys of which messages wait below the mark: they are read by key, in order
	last    map[stream]int64    // number of the last message that was delivered, of some keys
}

// stream is a topic and a key that orders messages.
type stream struct{ topic, key string }

func streamOf(m *Message) stream { return stream{m.Topic, m.Key} }

// failure is a message whose delivery has failed. Later messages of its key wait for it.
type failure struct {
	id       int64
	stream   stream // its key is "" if the message has none
	attempts int64
	since    time.Time // it failed for the first time
	due      time.Time // zero: it is stopped, and a person decides
}

const (
	maxFailures = 1000   // that are tried again, of a part, which then waits until there are fewer
	maxStopped  = 10_000 // of a part, the same: each takes some 400 bytes
	maxLast     = 1024   // keys of a part
)

func newPart(p hold.Part) *part {
	return &part{Part: p, failing: map[int64]*failure{}, stopped: map[int64]*failure{}, heads: map[stream]*failure{}, behind: map[stream]struct{}{}, last: map[stream]int64{}}
}

// age notes that a sweep begins of all that is below the mark.
func (p *part) age() { p.old, p.next = p.next, p.mark }

// swept returns the id above which a sweep begins.
func (p *part) swept(all bool) int64 {
	if all {
		return 0
	}
	return p.old
}

// full reports whether so many messages have failed that no others are read.
func (p *part) full() bool { return len(p.failing) >= maxFailures || len(p.stopped) >= maxStopped }

// rewind has the part read from its beginning.
func (p *part) rewind() { p.mark, p.old, p.next = 0, 0, 0 }

// failure returns what is known of a message that has failed, or nil.
func (p *part) failure(id int64) *failure {
	if f := p.failing[id]; f != nil {
		return f
	}
	return p.stopped[id]
}

// waits reports whether the messages of a key are read elsewhere: after the one that has failed, or by key.
func (p *part) waits(s stream) bool {
	_, behind := p.behind[s]
	return behind || p.heads[s] != nil
}

// fail remembers a failure.
func (p *part) fail(f *failure) {
	if f.due.IsZero() {
		delete(p.failing, f.id)
		p.stopped[f.id] = f
	} else {
		delete(p.stopped, f.id)
		p.failing[f.id] = f
	}
	if f.stream.key != "" {
		p.heads[f.stream] = f
		delete(p.behind, f.stream)
		delete(p.last, f.stream)
	}
}

// free forgets a failure. What has waited for it is read by key.
func (p *part) free(f *failure) {
	delete(p.failing, f.id)
	delete(p.stopped, f.id)
	if f.stream.key != "" {
		delete(p.heads, f.stream)
		p.behind[f.stream] = struct{}{}
	}
}

// delivered remembers the number of a message that is done.
func (p *part) delivered(m *Message) {
	if m.Key == "" {
		return
	}
	if len(p.last) >= maxLast {
		clear(p.last)
	}
	p.last[streamOf(m)] = m.Seq
}
