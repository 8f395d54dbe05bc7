// Package label limits the number of values of a metric label. Each value is a series as long as the process runs, and needs
// memory in this process and in the metrics server.
package label

import (
	"strings"
	"sync"
)

// Most is the largest number of values of a label. Other replaces all later values.
const (
	Most  = 100
	Other = "other"
)

// Unnamed replaces the empty value, because Prometheus treats an empty label as a missing label.
const Unnamed = "unnamed"

// Set contains the values of one label. The zero value is ready to use.
type Set struct {
	mu     sync.RWMutex
	values map[string]string
}

// Value returns the label value for v: v itself if v is among the first values, otherwise Other. first reports whether v is
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
	// Another goroutine may have added v between the two locks.
	if known, ok := s.values[v]; ok {
		return known, false
	}
	if len(s.values) >= Most {
		return Other, false
	}
	if s.values == nil {
		s.values = make(map[string]string)
	}
	v = strings.Clone(v) // v may be a part of a request, whose memory it would keep
	// Prometheus and OpenTelemetry refuse labels that are not UTF-8.
	s.values[v] = strings.ToValidUTF8(v, "\uFFFD")
	return s.values[v], true
}
