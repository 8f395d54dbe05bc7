package store

import (
	"bytes"
	"errors"
)

// Result is what a replay returns.
type Result struct {
	Kind   ResultKind
	Status int     // HTTP status; 0 for functions
	Header []Field // in the order in which they are sent
	Body   []byte
}

// ResultKind says how Body is to be read. The numbers are stored: they never change.
type ResultKind uint8

const (
	ResultValue   ResultKind = iota // the operation's value or response
	ResultFailure                   // a final failure, as JSON
	ResultOmitted                   // done, but its result was too large to be kept, or was forgotten
)

// Field is one header line.
type Field struct{ Name, Value string }

// WritesField is the name of a line in front of the header of a result, which says what has
// become of the handler's writes. It is a line like any other, so that earlier versions can
// read it; it is stored and not sent. A result without it was committed with them, or was
// stored before there was this line.
const WritesField = "Once-Writes"

var rolledBack = Field{WritesField, "rolled back"}

// MarkRolledBack returns r with the mark that its handler's writes were undone.
func (r Result) MarkRolledBack() Result {
	r.Header = append([]Field{rolledBack}, r.Header...)
	return r
}

// RolledBack reports whether r has that mark.
func (r Result) RolledBack() bool { return len(r.Header) > 0 && r.Header[0] == rolledBack }

// WithoutMark returns r as its handler has made it.
func (r Result) WithoutMark() Result {
	if len(r.Header) > 0 && r.Header[0].Name == WritesField {
		r.Header = r.Header[1:]
	}
	return r
}

// EncodeHeader returns the stored form of h: "Name: value" lines that end in
// "\n", and nil if h is empty. Names and values must not contain line feeds, and
// names not ": "; no name or value of HTTP does.
func EncodeHeader(h []Field) []byte {
	if len(h) == 0 {
		return nil
	}
	n := 0
	for _, f := range h {
		n += len(f.Name) + len(f.Value) + 3
	}
	b := make([]byte, 0, n)
	for _, f := range h {
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, '\n')
	}
	return b
}

// DecodeHeader reads what [EncodeHeader] wrote.
func DecodeHeader(b []byte) ([]Field, error) {
	var h []Field
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		name, value, split := bytes.Cut(line, []byte(": "))
		if !ended || !split {
			return nil, errors.New("store: stored header is damaged")
		}
		h = append(h, Field{string(name), string(value)})
		b = rest
	}
	return h, nil
}
