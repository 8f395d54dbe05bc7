package killstorm

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// told parses the log of the receiver: one JSON object per line, from its inboxes and from others. After a kill, its last line may be torn or
// missing.
type told struct {
	mu        sync.Mutex
	rest      []byte            // the begin of a line whose end is not written yet
	outcomes  map[outcome]int   // the number of each outcome
	parked    map[string]bool   // by event
	firstSeen map[string]string // time of the first log line about an event, by event
	discarded []discard
	messages  *meter // outcomes of messages
}

type outcome struct{ consumer, word string }

// discard is a delivery of an event that was booked before.
type discard struct{ event, source, at string }

func newTold() *told {
	return &told{outcomes: map[outcome]int{}, parked: map[string]bool{}, firstSeen: map[string]string{}, messages: newMeter()}
}

// Write implements [io.Writer].
func (t *told) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = append(t.rest, p...)
	for {
		line, rest, whole := bytes.Cut(t.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		t.line(line)
		t.rest = rest
	}
}

// line takes one line. t.mu is held.
func (t *told) line(line []byte) {
	if begin := bytes.LastIndex(line, []byte(`{"time":`)); begin > 0 { // the begin of the line was written by a process that was killed
		line = line[begin:]
	}
	var l struct {
		Time     time.Time `json:"time"`
		Message  string    `json:"msg"`
		Consumer string    `json:"consumer"`
		Event    string    `json:"event_id"`
		Source   string    `json:"source"`
	}
	word, isInbox := "", false
	if json.Unmarshal(line, &l) == nil {
		word, isInbox = strings.CutPrefix(l.Message, "inbox: ")
	}
	if !isInbox || l.Event == "" {
		return
	}
	at := l.Time.UTC().Format(eventTime)
	t.outcomes[outcome{l.Consumer, word}]++
	if t.firstSeen[l.Event] == "" {
		t.firstSeen[l.Event] = at
	}
	if l.Consumer == bookingsConsumer {
		switch word {
		case "duplicate":
			t.discarded = append(t.discarded, discard{l.Event, l.Source, at})
		case "parked":
			t.parked[l.Event] = true
		}
	}
	t.messages.count()
}

// park notes that an event is parked. The receiver itself may have been killed before it could log that.
func (t *told) park(event string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked[event] = true
}

// count returns how often a consumer has logged an outcome.
func (t *told) count(consumer, word string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outcomes[outcome{consumer, word}]
}

// eventTime is the format of times in the database of the service, which sort as text.
const eventTime = "2006-01-02T15:04:05.000000Z"

// until calls is again and again until it reports that the condition is true. It gives up when progress does not change within the patience.
func until[V comparable](ctx context.Context, is func(context.Context) (progress V, done bool, err error)) error {
	var last V
	for since := time.Now(); ; {
		now, done, err := is(ctx)
		if err != nil || done {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > receivePatience {
			return nil // the result will show the missing events
		}
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
}

const receivePatience = time.Minute // the longest time without progress
