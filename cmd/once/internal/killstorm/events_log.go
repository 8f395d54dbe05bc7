package killstorm

import (
	"errors"
	"os"
	"path/filepath"
)

// EventsLog writes the bookings and the log of the receiver to files in a folder. A nil EventsLog writes nothing.
type EventsLog struct {
	table    *table
	receiver *os.File
}

// OpenEventsLog makes the folder and its files: inbox.csv and receiver.log. Their old content is deleted.
func OpenEventsLog(dir string) (*EventsLog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // all users may open the folder, but only the owner may read its files
		return nil, err
	}
	t, err1 := newTable(filepath.Join(dir, "inbox.csv"), "event_id", "source", "first_seen", "processed", "result")
	receiver, err2 := createFile(filepath.Join(dir, "receiver.log"))
	l := &EventsLog{t, receiver}
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// inbox writes one line for each booking, and one for each delivery that was discarded because its event was already booked.
func (l *EventsLog) inbox(list []booking, t *told) {
	if l == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := func(event, at string) string {
		if first := t.firstSeen[event]; first != "" && first < at {
			return first
		}
		return at // the receiver was killed before it could log it
	}
	for _, b := range list {
		l.table.line(b.id, b.source, seen(b.id, b.at), b.at, "ok")
	}
	for _, d := range t.discarded {
		l.table.line(d.event, d.source, seen(d.event, d.at), d.at, "replayed")
	}
}

// Close writes the remaining lines. Its error means that the files are not complete.
func (l *EventsLog) Close() error {
	if l == nil {
		return nil
	}
	err := l.table.close()
	if l.receiver != nil {
		err = errors.Join(err, l.receiver.Close())
	}
	return err
}
