// Package deadletter is the commands of once deadletter: messages that were given up, to try again or to discard.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// Noun is once deadletter.
var Noun = cli.Noun{
	Name: "deadletter", Brief: "messages that an inbox or a relay has given up; you can redrive or discard these messages", Group: cli.GroupOperate,
	Entries: []cli.Entry{listEntry, showEntry, redriveEntry, discardEntry},
}

// refused translates err into an error of the command, if err is a refusal that has changed nothing.
func refused(db *cli.DB, doing string, err error) error {
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return cli.Nothing(fmt.Errorf("%s has no dead letter with this UID. Try: once deadletter list --letters --db %s; if you have the ID of the message, add --event ID", db.Name, db.Paste))
	case errors.Is(err, deadletter.ErrNoRun):
		return cli.Nothing(fmt.Errorf("%s has no redrive with this UID. Try: once deadletter list --db %s", db.Name, db.Paste))
	}
	if lacks := db.Lacks(err, "tables for dead letters", deadletter.Migrations.Capability); lacks != nil {
		return lacks
	}
	if errors.As(err, new(*store.Error)) {
		return db.Failed(doing, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	what, try := words.Advice(err.Error()) // the package has not accepted an argument
	return cli.Usage(strings.TrimPrefix(what, "deadletter: "), try)
}

// notDead returns the error for a letter that cannot be redriven or discarded, because it is not dead.
func notDead(db *cli.DB, uid string) error {
	return cli.Nothing(fmt.Errorf("the dead letter %s does not exist, or an operator has redriven or discarded the dead letter before. Try: once deadletter show %s --db %s", words.Shown(uid), words.Quoted(uid), db.Paste))
}

// letterFilter is the flags that choose letters.
type letterFilter struct {
	operate.LetterFilter

	between cli.Between
}

func (f *letterFilter) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.Origin, "origin", "", "only dead letters of this `ORIGIN`: inbox or outbox")
	fs.StringVar(&f.Consumer, "consumer", "", "only dead letters of the inbox of this `CONSUMER`")
	fs.StringVar(&f.Source, "source", "", "only dead letters whose message is from this `SOURCE`")
	fs.StringVar(&f.EventID, "event", "", "only dead letters of the message with this `ID`")
	fs.StringVar(&f.Topic, "topic", "", "only dead letters of this `TOPIC`")
	fs.StringVar(&f.Key, "key", "", "only dead letters of this ordering `KEY`")
	fs.StringVar(&f.Type, "type", "", "only dead letters whose message has this `TYPE`")
	fs.StringVar(&f.Class, "class", "", "only dead letters with this `CLASS` of failure, such as permanent or exhausted")
	fs.StringVar(&f.Cause, "cause", "", "only dead letters with this `CAUSE`, as \"once deadletter list\" prints it")
	fs.StringVar(&f.between.Since, "since", "", "only messages that were given up at this `TIME` or later: a time, or a duration before now such as 72h")
	fs.StringVar(&f.between.Before, "before", "", "only messages that were given up before this `TIME`: a time, or a duration before now such as 72h")
}

// resolve reads --since and --before. It returns the time by the clock of the database.
func (f *letterFilter) resolve(ctx context.Context, db *cli.DB) (now time.Time, err error) {
	return f.between.Read(ctx, db, &f.Since, &f.Before)
}

// bound limits a preview to letters that died before now, and returns the flags with which the command changes the same letters. So letters that die
// after the preview are not changed.
func (f *letterFilter) bound(now time.Time) string {
	if f.UID != "" {
		return "--yes"
	}
	if f.Before.IsZero() {
		f.Before = now
	}
	return "--yes --before " + f.Before.UTC().Format(time.RFC3339Nano)
}

// again returns the flags as they were given, for a command that the user can paste.
func (f *letterFilter) again() string {
	var flags strings.Builder
	for _, c := range [...]struct{ name, value string }{
		{"origin", f.Origin}, {"consumer", f.Consumer}, {"source", f.Source}, {"event", f.EventID}, {"topic", f.Topic}, {"key", f.Key}, {"type", f.Type}, {"class", f.Class}, {"cause", f.Cause},
		{"since", f.between.Since}, {"before", f.between.Before},
	} {
		if c.value != "" {
			flags.WriteString(" --" + c.name + " " + words.Quoted(c.value))
		}
	}
	return flags.String()
}
