// Package home is the commands of once home: tenants, and the region of each tenant.
package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Noun is once home.
var Noun = cli.Noun{
	Name: "home", Brief: "tenants, and the region of each tenant", Group: cli.GroupOperate,
	Entries: []cli.Entry{showEntry, moveEntry},
}

// regions is the flag that names the databases.
type regions struct{ file string }

func (c *regions) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.file, "regions", "", "the `FILE` with the databases of all regions, as JSON: {\"eu\": \"postgres://user@host/name\", ...}")
	cli.FromEnv(fs, "regions", "ONCE_REGIONS")
}

// opened are the databases of regions.
type opened struct {
	urls      map[string]string
	databases map[string]sqlplane.Database
	close     []func() error
}

func (o *opened) Close() {
	for _, c := range o.close {
		_ = c()
	}
}

// open opens the databases. For a database that cannot be reached, the result has a database whose methods return errors.
func (c *regions) open(ctx context.Context, m *cli.Env) (*opened, error) {
	if c.file == "" {
		return nil, cli.Usage("the databases of the regions are missing", "--regions FILE, with {\"eu\": \"postgres://user@host/name\", ...}")
	}
	o := &opened{databases: map[string]sqlplane.Database{}}
	text, err := os.ReadFile(c.file)
	if err == nil {
		err = json.Unmarshal(text, &o.urls)
	}
	if err != nil || len(o.urls) == 0 {
		return nil, cli.Usage(fmt.Sprintf("the file %s names no regions: %v", c.file, err), `use a file with {"eu": "postgres://user@host/name", ...}`)
	}
	for name, url := range o.urls {
		src, err := cli.ParseSource(url)
		if err != nil {
			return nil, fmt.Errorf("region %s: %w", name, err)
		}
		db, err := cli.OpenDatabase(ctx, url, false)
		if err != nil {
			// The other regions can still be shown, and the error of this one is reported with them.
			o.databases[name] = unreached{src.Dialect, err}
			continue
		}
		o.close = append(o.close, db.Close)
		open := m.OpenStore
		if open == nil {
			open = func(ctx context.Context, db *cli.Database) (sqlplane.Database, error) {
				return sqlstore.New(ctx, db.DB, sqlstore.Config{})
			}
		}
		if o.databases[name], err = open(ctx, db); err != nil {
			o.databases[name] = unreached{src.Dialect, db.Failed("read", err)}
		}
	}
	return o, nil
}

// unreached is a database that is not reached.
type unreached struct {
	dialect sqlplane.Dialect
	err     error
}

func (u unreached) Dialect() sqlplane.Dialect { return u.dialect }
func (u unreached) Pool() sqlplane.Runner     { return u }

func (u unreached) Within(context.Context, store.Isolation, func(context.Context, sqlplane.Runner) error) error {
	return u.err
}
func (u unreached) Exec(context.Context, store.Statement) (int64, error) { return 0, u.err }
func (u unreached) Query(context.Context, store.Statement, func(sqlplane.Row) error) error {
	return u.err
}
func (u unreached) Append(context.Context, store.Statement) error { return u.err }

// advised adds advice to an error that has none.
func advised(file string, err error) error {
	if err == nil {
		return nil
	}
	if what, try := words.Advice(err.Error()); try != "" {
		return fmt.Errorf("%s Try: %s", words.Sentence(what), try)
	}
	if errors.Is(err, store.ErrNotMigrated) {
		return fmt.Errorf("%w. Try: once migrate up --only %s --db URL, for each region of %s", err, home.Migrations.Capability, file)
	}
	return fmt.Errorf("%w. Try: run the same command again", err)
}

var showEntry = cli.Entry{
	Quick: true, Name: "home show", Args: "[TENANT]", Brief: "print the region of a tenant, from the database of each region",
	Help: `Prints the records in the databases of all regions about a tenant, or, without TENANT, about all tenants.
The operations of a tenant are executed only in the region that owns the tenant. A tenant without an owner is being
moved: the command prints the command line that completes the move.`,
	Make: func() cli.Runner { return new(show) },
}

type show struct {
	regions regions
	output  cli.Form
}

func (c *show) Flags(fs *pflag.FlagSet) {
	c.regions.Flags(fs)
	c.output.Flag(fs)
}

func (c *show) Run(ctx context.Context, m *cli.Env, args []string) error {
	o, err := c.regions.open(ctx, m)
	if err != nil {
		return err
	}
	defer o.Close()
	tenant := slices.Concat(args, []string{""})[0]
	list, err := home.Mover{Regions: o.databases}.Show(ctx, tenant)
	switch {
	case err != nil && len(list) == 0:
		return advised(c.regions.file, err)
	case len(list) == 0:
		return cli.Nothing(fmt.Errorf("no region has %s. Try: assign a region to a new tenant with once home move TENANT REGION", words.Either(tenant == "", "a tenant", words.Quoted(tenant))))
	case c.output != cli.Table:
		page := struct {
			Items []home.Standing `json:"items"`
		}{list}
		return errors.Join(cli.WriteList(m.Stdout, c.output, page, list), advised(c.regions.file, err))
	}
	return errors.Join(printList(m.Stdout, list), advised(c.regions.file, err))
}
