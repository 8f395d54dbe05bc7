package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry/journal"
)

// place is the place of a journal: a file or a database.
type place struct{ file, db string }

const fileUsage = "`PATH` of the journal"

func (p *place) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&p.file, "file", "", fileUsage+", the same path that the client gives to journal.Open")
	cli.DBFlag(fs, &p.db)
	cli.Unless(fs, "db", "file")
}

func (p *place) check() error {
	if (p.file == "") == (p.db == "") {
		return cli.Usage("--file or --db is missing", "--file PATH, or --db URL")
	}
	return nil
}

// intents are the intents of an open journal.
type intents struct {
	*operate.Intents
	io.Closer
}

// list reads a journal without changing it.
func (p *place) list(ctx context.Context, m *cli.Env) ([]operate.Intent, error) {
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
		fmt.Fprintf(m.Stderr, "The file ends with an incomplete record of %d bytes, at position %d: a client is writing this record, or was killed.\n", damage.Bytes, damage.Offset)
	}
	return operate.IntentsOf(list), err
}

// open opens an existing journal.
func (p *place) open(ctx context.Context, m *cli.Env) (*intents, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.db == "" {
		// journal.Open would create a missing file, so a path that is spelt wrong must fail before.
		if _, err := p.list(ctx, m); err != nil {
			return nil, err
		}
		j, err := journal.Open(p.file, journal.Config{})
		if err != nil {
			return nil, err
		}
		return &intents{operate.NewIntents(j), j}, nil
	}
	db, err := m.Open(ctx, p.db, operate.Config{})
	if err != nil {
		return nil, err
	}
	j, err := journal.OpenTable(db.Store, journal.Config{})
	if err == nil {
		// OpenTable sends nothing: this read shows whether the database has the table.
		_, err = j.List(ctx)
	}
	if err != nil {
		return nil, errors.Join(db.Failed("read", err), db.Close())
	}
	return &intents{operate.NewIntents(j), db}, nil
}

// find returns the open intent with a key, and with this url unless it is "". Several such intents are an error.
func (i *intents) find(ctx context.Context, key, url string) (operate.Intent, error) {
	found, err := i.Find(ctx, key, url)
	switch {
	case err != nil:
		return operate.Intent{}, err
	case len(found) == 0:
		return operate.Intent{}, fmt.Errorf("the journal has no open intent with the key %q. Try: once journal list, which prints the open intents", key)
	case len(found) > 1:
		return operate.Intent{}, fmt.Errorf("the journal has %d open intents with the key %q. Try: --url %s", len(found), key, words.Quoted(found[0].URL))
	}
	return found[0], nil
}
