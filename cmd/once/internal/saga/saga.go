// Package saga is the commands of once saga: work of several services with one outcome.
package saga

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// Noun is once saga.
var Noun = cli.Noun{
	Name: "saga", Brief: "sagas: work of several steps that all take effect or are all undone", Group: cli.GroupOperate,
	Entries: []cli.Entry{listEntry, showEntry, retryEntry, skipEntry, forceEntry, cancelEntry, wakeEntry, forgetEntry},
}

// subject has the flags and the argument that choose a saga.
type subject struct {
	db, tenant string
	fs         *pflag.FlagSet
}

func (c *subject) Flags(fs *pflag.FlagSet) {
	c.fs = fs
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.tenant, "tenant", "", "the `TENANT` of the saga (default: search the key in all tenants)")
}

// find returns the saga that the command chooses.
func (c *subject) find(ctx context.Context, m *cli.Env, db *cli.DB, args []string) (one operate.Saga, err error) {
	list, err := db.Sagas.Find(ctx, args[0])
	if err != nil {
		return one, refused(db, "read", err)
	}
	var of []operate.Saga
	for _, s := range list {
		if !c.fs.Changed("tenant") || s.Tenant == c.tenant {
			of = append(of, s)
		}
	}
	switch len(of) {
	case 1:
		return of[0], nil
	case 0:
		return one, cli.Nothing(fmt.Errorf("%s has no saga with this key: the saga was not started, or its record has expired. Try: once saga list --db %s", db.Name, db.Paste))
	}
	if err := printList(m.Stderr, of); err != nil {
		return one, err
	}
	return one, fmt.Errorf("%d tenants have a saga with this key. Try: --tenant %s", len(of), words.Quoted(of[0].Tenant))
}

// named returns the flags and the argument that choose a saga.
func named(s operate.Saga) string {
	return words.Quoted(s.Key) + words.Either(s.Tenant != "", " --tenant "+words.Quoted(s.Tenant), "")
}

// titled returns the name of a saga for people.
func titled(s operate.Saga) string {
	return words.Shown(s.Definition) + " " + words.Shown(s.Key) + words.Either(s.Tenant != "", " of "+words.Shown(s.Tenant), "")
}

// refused translates err into the words of the command, if err says why nothing was done.
func refused(db *cli.DB, doing string, err error) error {
	if errors.Is(err, saga.ErrNothing) {
		return cli.Nothing(fmt.Errorf("%s no longer has a saga with this key. Try: once saga list --db %s", db.Name, db.Paste))
	}
	if lacks := db.Lacks(err, "tables for sagas", saga.Migrations.Capability); lacks != nil {
		return lacks
	}
	switch {
	case errors.As(err, new(*store.Error)):
		return db.Failed(doing, err)
	case errors.Is(err, operate.ErrRunning), errors.Is(err, operate.ErrUnknown):
		return errors.New("the saga has not ended, and still needs its stored data. Try: run the same command again when the saga has ended, or once saga cancel KEY")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	var said *once.Error
	if errors.As(err, &said) && said.Err != nil { // the other words of the error are for the caller of an operation
		err = said.Err
	}
	what, try := words.Advice(err.Error())
	return fmt.Errorf("%s. Try: %s", strings.TrimSuffix(strings.TrimPrefix(what, "saga: "), "."), words.Either(try != "", try, "once saga show KEY --db "+db.Paste))
}

func printList(w io.Writer, list []operate.Saga) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "TENANT\tKEY\tSAGA\tSTATE\tAT\tSINCE\n")
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", words.OrDash(s.Tenant), words.Shown(s.Key), words.OrDash(s.Definition), s.State, words.OrDash(s.At), words.Time(s.Since))
	}
	return t.Flush()
}
