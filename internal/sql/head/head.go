// Package head is the stored form of a result without its body: its header lines, whether the writes of
// its handler were rolled back, and which events it has caused.
package head

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/oncelib/once/store"
)

// Mark is the name of a line in front of the header, which says whether the handler's writes are committed. It is stored and
// not sent. It is a line like any other, so that earlier binaries can read it. A result without it was committed
// with the writes, or was stored before this line existed.
const Mark = "Once-Writes"

// Events is the name of a line in front of the header, after the line of [Mark]: the IDs of events, with blanks between them. It is not sent either.
const Events = "Once-Events"

var rolledBack = store.Field{Name: Mark, Value: "rolled back"}

// Encode returns the stored form of r: "Name: value" lines that end in "\n", and nil if there is
// nothing to say. Names and values must not contain line feeds, and names not ": "; no name or value of HTTP does.
func Encode(r *store.Result) []byte {
	var marks []store.Field
	if r.RolledBack {
		marks = append(marks, rolledBack)
	}
	if len(r.Events) > 0 {
		marks = append(marks, store.Field{Name: Events, Value: strings.Join(r.Events, " ")})
	}
	if len(marks) == 0 {
		return lines(r.Header)
	}
	return lines(slices.Concat(marks, r.Header))
}

// Forgotten returns the stored form of a result that was forgotten: it is not known whether its writes were rolled back.
func Forgotten() []byte { return line(nil, store.Field{Name: Mark, Value: "not recorded"}) }

// IsForgotten reports whether r was read from [Forgotten].
func IsForgotten(r *store.Result) bool { return len(r.Header) > 0 && r.Header[0].Name == Mark }

// Size returns how many bytes the header of a result has as it is stored, without [Mark].
func Size(h []store.Field) (n int) {
	for _, f := range h {
		if f.Name != Mark {
			n += len(f.Name) + len(f.Value) + 3
		}
	}
	return n
}

func lines(h []store.Field) []byte {
	if len(h) == 0 {
		return nil
	}
	n := 0
	for _, f := range h {
		n += len(f.Name) + len(f.Value) + 3
	}
	b := make([]byte, 0, n)
	for _, f := range h {
		b = line(b, f)
	}
	return b
}

func line(b []byte, f store.Field) []byte {
	b = append(b, f.Name...)
	b = append(b, ": "...)
	b = append(b, f.Value...)
	return append(b, '\n')
}

// Decode reads the output of [Encode] into r.
func Decode(b []byte, r *store.Result) error {
	r.Header, r.RolledBack, r.Events = nil, false, nil
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		name, value, split := bytes.Cut(line, []byte(": "))
		if !ended || !split {
			return errors.New("store: the stored head of a result is damaged")
		}
		b = rest
		f := store.Field{Name: string(name), Value: string(value)}
		if len(r.Header) == 0 && r.Events == nil && f == rolledBack && !r.RolledBack {
			r.RolledBack = true
			continue
		}
		if len(r.Header) == 0 && r.Events == nil && f.Name == Events && isEvents(f.Value) {
			r.Events = strings.Split(f.Value, " ")
			continue
		}
		r.Header = append(r.Header, f)
	}
	return nil
}

// isEvents reports whether a value is a list of IDs with one blank between them.
func isEvents(value string) bool {
	return value != "" && !slices.Contains(strings.Split(value, " "), "")
}
