package journal

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// record is the payload of a frame: an intent, or a change of an intent.
type record struct {
	Kind string `json:"k"`
	ID   uint64 `json:"i"`

	Key    string      `json:"key,omitempty"`
	Method string      `json:"m,omitempty"`
	URL    string      `json:"u,omitempty"`
	Header http.Header `json:"h,omitempty"`
	Since  int64       `json:"s,omitempty"` // milliseconds since 1970, like all times in records

	Expires int64  `json:"e,omitempty"`
	Held    string `json:"held,omitempty"`

	body []byte // written after the JSON
}

const (
	kindOpen  = "open"
	kindNote  = "note" // the intent expires earlier, or is held
	kindClose = "close"
)

var errRecord = errors.New("journal: an undamaged record has an unknown format. Try: the release of once that has written the record")

// encode returns the length of the JSON, the JSON, and the body.
func (r *record) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, binary.MaxVarintLen32+len(text)+len(r.body))
	b = binary.AppendUvarint(b, uint64(len(text)))
	b = append(b, text...)
	return append(b, r.body...), nil
}

func decode(payload []byte) (r record, err error) {
	n, size := binary.Uvarint(payload)
	if size <= 0 || n > uint64(len(payload)-size) {
		return r, errRecord
	}
	text, body := payload[size:size+int(n)], payload[size+int(n):]
	if json.Unmarshal(text, &r) != nil || r.ID == 0 {
		return r, errRecord
	}
	r.body = slices.Clone(body)
	return r, nil
}

// entry is an open intent.
type entry struct {
	record

	in    *batch // the batch that will write the intent; nil if the intent is on the disk
	begun int    // the number of running calls that use the intent
	doubt bool   // a finished attempt may have had an effect
}

func (e *entry) intent() Intent {
	return Intent{
		ID: strconv.FormatUint(e.ID, 10), Key: e.Key, Method: e.Method, URL: e.URL, Header: e.Header.Clone(), Body: slices.Clone(e.body),
		Since: instant(e.Since), Expires: instant(e.Expires), Held: e.Held, Active: e.begun > 0,
	}
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// size returns the approximate size of an intent in memory.
func (r *record) size() int64 {
	n := len(r.Key) + len(r.Method) + len(r.URL) + len(r.body)
	for name, lines := range r.Header {
		n += len(name)
		for _, line := range lines {
			n += len(line)
		}
	}
	return int64(n) + entrySize
}

// entrySize is the size of an intent without its texts and its body.
const entrySize = 512

// name has the parts of a request that are the same in all requests of one intent.
type name struct{ key, method, url string }

func (r *record) name() name { return name{r.Key, r.Method, r.URL} }

// table has the open intents.
type table struct {
	byID   map[uint64]*entry
	byName map[name]*entry
	last   uint64 // the highest ID so far, including closed intents
	bytes  int64  // the size of all open intents
}

func newTable() *table { return &table{byID: map[uint64]*entry{}, byName: map[name]*entry{}} }

// apply changes the table as a record says.
func (t *table) apply(r record) error {
	e := t.byID[r.ID]
	t.last = max(t.last, r.ID)
	switch r.Kind {
	case kindOpen:
		if e != nil {
			return errRecord
		}
		if closed := t.byName[r.name()]; closed != nil { // the record that closed the old intent was incomplete: the intent could not have begun again otherwise
			t.remove(closed)
		}
		t.add(&entry{record: r})
	case kindNote:
		if e != nil { // the record of the intent itself may have been incomplete
			e.Expires, e.Held = r.Expires, r.Held
		}
	case kindClose:
		if e != nil { // otherwise the record only keeps the last ID
			t.remove(e)
		}
	default:
		return errRecord
	}
	return nil
}

func (t *table) add(e *entry) {
	t.byID[e.ID], t.byName[e.name()], t.last = e, e, max(t.last, e.ID)
	t.bytes += e.size()
}

func (t *table) remove(e *entry) {
	if t.byID[e.ID] != e {
		return
	}
	delete(t.byID, e.ID)
	delete(t.byName, e.name())
	t.bytes -= e.size()
}

func (t *table) find(id string) *entry {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil
	}
	return t.byID[n]
}

func (t *table) intents() []Intent {
	list := make([]Intent, 0, len(t.byID))
	for _, e := range t.entries() {
		list = append(list, e.intent())
	}
	return list
}

// entries returns the open intents in the order of their IDs, in which they began.
func (t *table) entries() []*entry {
	list := make([]*entry, 0, len(t.byID))
	for _, e := range t.byID {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// readTable returns the table of a file with this content.
func readTable(file []byte) (*table, Damage, error) {
	t := newTable()
	damage, err := parse(file, func(payload []byte) error {
		r, err := decode(payload)
		if err != nil {
			return err
		}
		return t.apply(r)
	})
	for _, e := range t.byID {
		e.doubt = true // a call that was killed may have had an effect
	}
	return t, damage, err
}
