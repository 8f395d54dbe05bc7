package label_test

import (
	"strconv"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/label"
)

// TestSetIsBounded: the first values keep their names, whatever comes later and from however many goroutines.
func TestSetIsBounded(t *testing.T) {
	var s label.Set
	for i := range label.Most {
		v := strconv.Itoa(i)
		for _, want := range []bool{true, false} {
			if got, first := s.Value(v); got != v || first != want {
				t.Errorf("value %s is %q, first %v, want %v", v, got, first, want)
			}
		}
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 1000 {
				if got, _ := s.Value(strconv.Itoa(g) + "-" + strconv.Itoa(i)); got != label.Other {
					t.Errorf("a value beyond the first %d is %q", label.Most, got)
				}
			}
		})
	}
	all.Wait()
	if got, _ := s.Value("7"); got != "7" {
		t.Errorf("an early value has become %q", got)
	}
}

func TestSetRace(t *testing.T) {
	var s label.Set
	var all sync.WaitGroup
	var mu sync.Mutex
	found := map[string]bool{}
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				v, _ := s.Value(strconv.Itoa(i))
				mu.Lock()
				found[v] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(found) != label.Most+1 {
		t.Errorf("%d values, want %d and one for the rest", len(found), label.Most)
	}
}

func TestSetMakesTextsValid(t *testing.T) {
	var s label.Set
	if got, _ := s.Value(""); got != label.Unnamed {
		t.Errorf("no value is %q", got)
	}
	for range 2 {
		if got, _ := s.Value("a\xffb"); !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	}
}
