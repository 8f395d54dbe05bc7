// Package head contains the stored form of a result without its body: the header lines, whether the handler's writes were rolled
// back, and the events of the operation.
package head

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/oncelib/once/store"
)

// Mark is the name of a line before the header that says whether the handler's writes are committed. The line is stored, but
// never sent. It has the form of a header line, so that earlier releases can read it. A result without this line was
// committed together with the writes, or an earlier release stored it.
const Mark = "Once-Writes"

// Events is the name of a line before the header and after the line [Mark]. It contains the IDs of events, separated by blanks,
// and is never sent.
const Events = "Once-Events"

var rolledBack = store.Field{Name: Mark, Value: "rolled back"}

// Encode returns the stored form of r: lines "Name: value" that end with "\n", or nil if there is no line. Names and values must
// not contain line feeds, and names must not contain ": ". Names and values of HTTP never do.
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

// Forgotten returns the stored form of a forgotten result: it is not known whether the writes were rolled back.
func Forgotten() []byte { return line(nil, store.Field{Name: Mark, Value: "not recorded"}) }

// IsForgotten reports whether r comes from [Forgotten].
func IsForgotten(r *store.Result) bool { return len(r.Header) > 0 && r.Header[0].Name == Mark }

// Size returns the stored size of a result's header in bytes, without [Mark].
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

// Decode reads the form that [Encode] returns into r.
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
		// Only a line before the header counts: later ones come from the handler.
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

// isEvents reports whether a value is a list of IDs that are separated by one blank.
func isEvents(value string) bool {
	return value != "" && !slices.Contains(strings.Split(value, " "), "")
}
