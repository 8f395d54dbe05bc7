package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry/journal"
)

// place is where a journal is: in a file or in a database.
type place struct{ file, db string }

const fileUsage = "`PATH` of the journal"

func (p *place) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&p.file, "file", "", fileUsage+", as the client gives it to journal.Open")
	cli.DBFlag(fs, &p.db)
	cli.Unless(fs, "db", "file")
}

func (p *place) check() error {
	if (p.file == "") == (p.db == "") {
		return cli.Usage("where is the journal?", "--file PATH, or --db URL")
	}
	return nil
}

// intents is a journal of whatever kind.
type intents interface {
	journal.Journal
	Resolve(ctx context.Context, id string) error
	Close() error
}

// list reads a journal without touching it.
func (p *place) list(ctx context.Context, m *cli.Env) ([]journal.Intent, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.db != "" {
		j, err := p.open(ctx, m)
		if err != nil {
			return nil, err
		}
		list, err := j.List(ctx)
		return list, errors.Join(err, j.Close())
	}
	list, damage, err := journal.Read(p.file)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w. Try: --file with the path that the client gives to journal.Open", err)
	}
	if err == nil && damage.Bytes > 0 {
		fmt.Fprintf(m.Stderr, "%d bytes, from %d on, are of records that were being written: by a client that is at work, or was killed.\n", damage.Bytes, damage.Offset)
	}
	return list, err
}

// open opens a journal that is there.
func (p *place) open(ctx context.Context, m *cli.Env) (intents, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.db == "" {
		if _, err := p.list(ctx, m); err != nil {
			return nil, err
		}
		return journal.Open(p.file, journal.Config{})
	}
	db, err := m.Open(ctx, p.db, operate.Config{})
	if err != nil {
		return nil, err
	}
	j, err := journal.OpenTable(db.Store, journal.Config{})
	if err == nil {
		_, err = j.List(ctx)
	}
	if err != nil {
		return nil, errors.Join(db.Failed("read", err), db.Close())
	}
	return databaseJournal{j, db}, nil
}

type databaseJournal struct {
	*journal.Table

	db *cli.DB
}

func (j databaseJournal) Close() error { return j.db.Close() }

// intentWith returns the only intent with a key, and with an address unless that is "".
func intentWith(list []journal.Intent, key, url string) (journal.Intent, error) {
	var found []journal.Intent
	for _, in := range list {
		if (in.Key == key || strings.Trim(in.Key, `"`) == key) && (url == "" || in.URL == url) {
			found = append(found, in)
		}
	}
	switch len(found) {
	case 0:
		return journal.Intent{}, fmt.Errorf("no intent with the key %q is open. Try: once journal list, which has those that are", key)
	case 1:
		return found[0], nil
	}
	return journal.Intent{}, fmt.Errorf("%d intents with the key %q are open. Try: --url %s", len(found), key, words.Quoted(found[0].URL))
}
