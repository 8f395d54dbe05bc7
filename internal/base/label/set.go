// Package label bounds the values of a label of metrics: each value is a series for as long as the process
// runs, in its memory and in that of the server that keeps it.
package label

import (
	"strings"
	"sync"
)

// Most is how many values a label has, and Other replaces all later ones.
const (
	Most  = 100
	Other = "other"
)

// Unnamed replaces "": to Prometheus, a label without a value is no label.
const Unnamed = "unnamed"

// Set is the values of one label. The zero value is ready to use.
type Set struct {
	mu     sync.RWMutex
	values map[string]string
}

// Value returns v as a value of the label: v itself, if it is among the first ones. first says that it is
// new.
func (s *Set) Value(v string) (_ string, first bool) {
	if v == "" {
		v = Unnamed
	}
	s.mu.RLock()
	known, ok := s.values[v]
	full := len(s.values) >= Most
	s.mu.RUnlock()
	switch {
	case ok:
		return known, false
	case full:
		return Other, false
	}
	return s.add(v)
}

func (s *Set) add(v string) (_ string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.values[v]; ok {
		return known, false
	}
	if len(s.values) >= Most {
		return Other, false
	}
	if s.values == nil {
		s.values = make(map[string]string)
	}
	v = strings.Clone(v) // it may be a part of a request
	s.values[v] = strings.ToValidUTF8(v, "\uFFFD")
	return s.values[v], true
}
