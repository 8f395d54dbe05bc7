// Package outbox is the commands of once outbox: messages that wait for their delivery.
package outbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// Noun is once outbox.
var Noun = cli.Noun{
	Name: "outbox", Brief: "messages that wait for their delivery by a relay", Group: cli.GroupOperate,
	Entries: []cli.Entry{listEntry, showEntry, pauseEntry, resumeEntry, skipEntry, resendEntry, renumberEntry, forgetEntry},
}

// refused translates err into the words of the command, if err says why nothing was done.
func refused(db *cli.DB, doing string, err error) error {
	if errors.Is(err, outbox.ErrNotFound) {
		return cli.Nothing(fmt.Errorf("the outbox of %s has no message with this ID: its transaction has not committed, or the message was delivered. Try: once outbox list --db %s", db.Name, db.Paste))
	}
	if lacks := db.Lacks(err, "outbox", outbox.Migrations.Capability); lacks != nil {
		return lacks
	}
	if !errors.As(err, new(*store.Error)) { // the outbox has refused an argument, and its error has the reason
		return cli.Usage(strings.TrimPrefix(err.Error(), "outbox: "), "once outbox list --help")
	}
	return db.Failed(doing, err)
}

// about returns a command line about one topic or key of the outbox.
func about(db *cli.DB, command, topic, key string) string {
	line := "once outbox " + command + " --topic " + words.Quoted(topic)
	if key != "" {
		line += " --key " + words.Quoted(key)
	}
	if command == "resume" {
		line += " --reason WHY"
	}
	return line + " --db " + db.Paste
}
