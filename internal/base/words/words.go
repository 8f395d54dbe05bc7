// Package words writes values, numbers, times and advice for people and for the shell. The command and the doctor use it.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Either returns yes if cond is true, otherwise no.
func Either(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

// Shown returns s for a terminal. It adds quotation marks if s could look like something else, move the cursor, or change
// the text next to it.
func Shown(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.Contains(s, "  ") || strings.TrimSpace(s) != s || s[0] == '"' {
		return strconv.Quote(s)
	}
	return s
}

// OrDash returns Shown of s, or a dash if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return Shown(s)
}

// Quoted returns s as one word of a shell.
func Quoted(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Count returns a number with its noun: "1 letter", "2 letters".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Counted returns a number with a text that agrees with it: "1 message waits", "2 messages wait".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Span returns a duration with the precision that a person needs.
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

// Sentence adds a full stop to what, unless what ends with one already.
func Sentence(what string) string {
	if strings.HasSuffix(what, ".") || strings.HasSuffix(what, "?") {
		return what
	}
	return what + "."
}

// Time returns t in UTC, or a dash if t is zero.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Advice separates the advice from a message. An error that was wrapped several times may contain several pieces of advice.
// The first piece counts, because it comes from the place of the error.
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
