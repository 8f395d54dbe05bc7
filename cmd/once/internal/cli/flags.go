package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/operate"
)

// Milliseconds is the form of times in logs.
const Milliseconds = "2006-01-02T15:04:05.000Z07:00"

// Between is the flags --since and --before.
type Between struct{ Since, Before string }

// Flags adds the two flags.
func (b *Between) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&b.Since, "since", "", "only items of this `TIME` or later: a time, or a duration before now such as 72h")
	fs.StringVar(&b.Before, "before", "", "only items from before this `TIME`: a time, or a duration before now such as 72h")
}

// Read sets since and before, and returns the time by the clock of the database.
func (b *Between) Read(ctx context.Context, db *DB, since, before *time.Time) (now time.Time, err error) {
	if now, err = db.Keys.Now(ctx); err != nil {
		return now, db.Failed("read", err)
	}
	if *since, err = instant("--since", b.Since, now); err != nil {
		return now, err
	}
	*before, err = instant("--before", b.Before, now)
	return now, err
}

// instant reads the value of a flag: a time, or a duration before now.
func instant(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, Usage(fmt.Sprintf("%s %q is not a time", flag, s), flag+" 2026-01-31T12:00:00Z, or "+flag+" 72h")
	}
	return t, nil
}

// Operator is the name of the user who runs the program.
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
		return Usage(fmt.Sprintf("--limit %d must be greater than zero", limit), "--limit 50")
	}
	return nil
}

// ByFlags adds the flags --by and --reason of all commands that change something.
func ByFlags(fs *pflag.FlagSet, by *operate.By) {
	fs.StringVar(&by.Reason, "reason", "", "the reason `WHY` you run this command; the audit records the reason (required)")
	fs.StringVar(&by.Who, "by", Operator(), "the name (`WHO`) of the operator who runs this command; the audit records the name")
}

// CheckBy returns an error that names a missing flag.
func CheckBy(by operate.By, try string) error {
	switch {
	case strings.TrimSpace(by.Reason) == "":
		return Usage("--reason is missing", try)
	case by.Who == "":
		return Usage("--by is missing", try+" --by WHO")
	}
	return nil
}

// YesFlag adds the flag --yes of all commands that change something.
func YesFlag(fs *pflag.FlagSet, yes *bool) {
	fs.BoolVar(yes, "yes", false, "make the change; without --yes the command only prints the change")
}
