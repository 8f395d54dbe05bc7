package cli

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/operate"
)

// Either is yes if cond, else no.
func Either(cond bool, yes, no string) string { return either(cond, yes, no) }

func either(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

// Shown is s for a terminal: as it is, or in quotation marks if it could be mistaken for
// something else, move the cursor, or change what stands beside it.
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

// Milliseconds is the form of times in logs.
const Milliseconds = "2006-01-02T15:04:05.000Z07:00"

// Moment is t for JSON, nil if it is not set.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Instant reads the value of a flag: a time, or how long before now it was.
func Instant(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, Usage(fmt.Sprintf("%s %q is no time", flag, s), flag+" 2026-01-31T12:00:00Z, or "+flag+" 72h")
	}
	return t, nil
}

// Operator names who runs the program.
func Operator() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		return u.Username
	}
	return u.Username + "@" + host
}

// CheckLimit checks the flag --limit.
func CheckLimit(limit int) error {
	if limit < 1 {
		return Usage(fmt.Sprintf("--limit %d", limit), "--limit 50")
	}
	return nil
}

// ByFlags adds the flags --by and --reason of all that changes something.
func ByFlags(fs *pflag.FlagSet, by *operate.By) {
	fs.StringVar(&by.Reason, "reason", "", "`WHY`, for the audit, required")
	fs.StringVar(&by.Who, "by", Operator(), "`WHO`, for the audit")
}

// CheckBy says what is missing.
func CheckBy(by operate.By, try string) error {
	switch {
	case strings.TrimSpace(by.Reason) == "":
		return Usage("--reason is missing", try)
	case by.Who == "":
		return Usage("--by is missing", try+" --by WHO")
	}
	return nil
}

// YesFlag adds the flag --yes of all that changes something.
func YesFlag(fs *pflag.FlagSet, yes *bool) {
	fs.BoolVar(yes, "yes", false, "do it; without it, show what would be done")
}
