package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncelib/once/internal/base/printable"
)

const (
	maxType     = 128 // bytes
	maxSegments = 8   // the maximum number of words of a type
	maxTypes    = 100 // the maximum number of types of an endpoint
	maxPatterns = 4096
	ofPackage   = "webhook." // the beginning of the types of events that this package sends
	everything  = "*"
)

// checkType returns an error if the type of an event is not valid. A valid type contains no character that has
// a meaning in a pattern or in the column of patterns.
func checkType(t string) error {
	if t == "" {
		return errors.New(`the type is empty. Try: the name of the event, such as "refund.succeeded"`)
	}
	segments := strings.Split(t, ".")
	if len(t) > maxType || len(segments) > maxSegments || slices.ContainsFunc(segments, func(s string) bool { return !isSegment(s) }) {
		return fmt.Errorf("the type %q is not valid. Try: at most %d words of letters, digits, _ and -, separated by dots, and at most %d bytes together, such as \"refund.succeeded\"",
			printable.Short(t), maxSegments, maxType)
	}
	return nil
}

func isSegment(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// checkPatterns returns the patterns of an endpoint without repetitions, or an error that names a wrong
// pattern.
func checkPatterns(list []string) (patterns []string, err error) {
	bytes := 0
	for _, p := range list {
		if slices.Contains(patterns, p) {
			continue
		}
		if p != everything {
			if err := checkType(strings.TrimSuffix(p, ".*")); err != nil {
				return nil, fmt.Errorf("%w; or %q, or %q", err, "refund.*", everything)
			}
		}
		patterns, bytes = append(patterns, p), bytes+len(p)+1
	}
	switch {
	case len(patterns) == 0:
		return nil, fmt.Errorf("the list of types is empty. Try: such as %q, %q, or %q for all types", "refund.succeeded", "refund.*", everything)
	case len(patterns) > maxTypes || bytes > maxPatterns:
		return nil, fmt.Errorf("the list has %d types with %d bytes, which is too much. Try: at most %d types with %d bytes, or a pattern such as %q", len(patterns), bytes, maxTypes, maxPatterns, "refund.*")
	}
	return patterns, nil
}

// column returns the text in which the table stores the patterns of an endpoint. Each pattern is between
// two blanks, because no pattern contains a blank.
func column(patterns []string) string { return " " + strings.Join(patterns, " ") + " " }

// wanting returns the texts that match a type: an endpoint wants the type if its column of patterns contains
// one of them. For "a.b.c" the texts are " * ", " a.* ", " a.b.* " and " a.b.c ".
func wanting(t string) []string {
	list := []string{" " + everything + " "}
	for i := range len(t) {
		if t[i] == '.' {
			list = append(list, " "+t[:i]+".* ")
		}
	}
	return append(list, " "+t+" ")
}

// wants reports whether an endpoint with these patterns wants a type. The database must decide in the same way.
func wants(column, t string) bool {
	return slices.ContainsFunc(wanting(t), func(text string) bool { return strings.Contains(column, text) })
}
