// Package words is how the command and the doctor write for people and for the shell: values, numbers, times and advice.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Either is yes if cond, else no.
func Either(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

// Shown is s for a terminal: as it is, or in quotation marks if it could be mistaken for
// something else, move the cursor, or change the text next to it.
func Shown(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.Contains(s, "  ") || strings.TrimSpace(s) != s || s[0] == '"' {
		return strconv.Quote(s)
	}
	return s
}

// OrDash is a text that may be missing.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return Shown(s)
}

// Quoted makes s one word of a shell.
func Quoted(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Count is a number of things: "1 letter", "2 letters".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Counted is a number with a text that agrees with it: "1 message waits", "2 messages wait".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Span is a duration, about as exact as a person wants it.
func Span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// Sentence ends what with a full stop, unless it has an end of its own.
func Sentence(what string) string {
	if strings.HasSuffix(what, ".") || strings.HasSuffix(what, "?") {
		return what
	}
	return what + "."
}

// Time is a moment, in UTC, or a dash if it is not set.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Advice cuts the advice out of a message. Errors that were wrapped on their way may
// bring several: the first is from where it happened, and knows best.
func Advice(message string) (what, try string) {
	var kept []string
	for line := range strings.Lines(message) {
		before, rest, ok := strings.Cut(strings.TrimRight(line, " \n"), "Try: ")
		if before = strings.TrimRight(before, " "); before != "" {
			kept = append(kept, before)
		}
		if ok && try == "" {
			rest, _, _ = strings.Cut(rest, "Try: ")
			try = strings.TrimRight(rest, " .")
		}
	}
	return strings.Join(kept, "\n"), try
}
