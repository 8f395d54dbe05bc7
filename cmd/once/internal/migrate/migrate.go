// Package migrate is the commands of once migrate: the tables of the database.
package migrate

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/dynamotable"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Noun is once migrate.
var Noun = cli.Noun{
	Name: "migrate", Brief: "create and update the tables of the library in the database", Group: cli.GroupSetUp,
	Entries: []cli.Entry{upEntry, statusEntry, printEntry},
}

var (
	upEntry = cli.Entry{
		Name: "migrate up", Brief: "create or update the tables of the library",
		Help: `Applies the migrations that the database does not have yet, in one transaction. (MySQL and MariaDB cannot run
migrations in a transaction. If a run on MySQL or MariaDB is killed, the next run completes the migration.) Several
nodes that start at the same time may all run this command. The command does not change the tables of your service.

Each capability has its own numbers of migrations. The capabilities are: ` + capabilityNames() + `.
With --only, the command creates and updates only the tables of the named capabilities.`,
		Make: func() cli.Runner { return new(up) },
	}
	statusEntry = cli.Entry{
		Quick: true, Name: "migrate status", Brief: "list the migrations, and whether the database has them",
		Help: `Lists the migrations and whether the database has them. The exit code is 1 if
the database lacks a migration. With --only, the command lists only the migrations of the named capabilities.`,
		Make: func() cli.Runner { return new(status) },
	}
	printEntry = cli.Entry{
		Name: "migrate print", Brief: "print the migrations as SQL, for goose, Atlas or psql",
		Help: `Prints the migrations as plain SQL. With --format goose the command prints the migrations as one
migration file for goose. The library has only forward migrations. After an upgrade of the library, --from prints only
the new migrations of one capability. With --dialect dynamodb the command prints the definition of the table of
package dynamostore, for "aws dynamodb create-table --cli-input-json".`,
		Make: func() cli.Runner { return new(printCommand) },
	}
)

type up struct {
	db string
	selection
}

func (c *up) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	c.selection.Flags(fs)
}

func (c *up) Run(ctx context.Context, m *cli.Env, _ []string) error {
	db, err := cli.OpenDatabase(ctx, c.db, true)
	if err != nil {
		return err
	}
	defer db.Close()
	status, err := sqlstore.Status(ctx, db.DB, Capabilities...) // all capabilities are read: if one of them is newer than this program, the database is refused
	if err != nil {
		return db.Failed("read", err)
	}
	if err := sqlstore.MigrateOnly(ctx, db.DB, c.sets()...); err != nil {
		return db.Failed("migrate", err)
	}
	var has []migration.Migration
	for _, s := range c.of(status) {
		if !s.Applied {
			fmt.Fprintf(m.Stdout, "applied  %s\n", migrationLine(s.Migration))
		}
		has = append(has, s.Migration)
	}
	fmt.Fprintf(m.Stdout, "%s is at %s.\n", db.Name, migration.Newest(has))
	return nil
}

type status struct {
	db string
	selection
}

func (c *status) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	c.selection.Flags(fs)
}

func (c *status) Run(ctx context.Context, m *cli.Env, _ []string) error {
	db, err := cli.OpenDatabase(ctx, c.db, false)
	if err != nil {
		return err
	}
	defer db.Close()
	status, err := sqlstore.Status(ctx, db.DB, Capabilities...)
	if err != nil {
		return db.Failed("read", err)
	}
	list := c.of(status)
	missing := 0
	for _, s := range list {
		word := "applied"
		if !s.Applied {
			word = "missing"
			missing++
		}
		fmt.Fprintf(m.Stdout, "%s  %s\n", word, migrationLine(s.Migration))
	}
	if missing > 0 {
		return fmt.Errorf("%s lacks %d of %d migrations. Try: once migrate up%s --db %s", db.Name, missing, len(list), c.again(), db.Paste)
	}
	return nil
}

type printCommand struct {
	dialect, format string
	from            int
	selection
}

func (c *printCommand) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.dialect, "dialect", "", "`NAME` of the SQL dialect: postgres, sqlite or mysql; or dynamodb for the table of DynamoDB")
	fs.StringVar(&c.format, "format", "plain", "`NAME` of the output format: plain or goose")
	fs.IntVar(&c.from, "from", 0, "print only the migrations after this `VERSION`; --only must name one capability")
	c.selection.Flags(fs)
}

func (c *printCommand) Run(_ context.Context, m *cli.Env, _ []string) error {
	if c.dialect == "" {
		return cli.Usage("--dialect is missing", "once migrate print --dialect postgres")
	}
	if c.dialect == "dynamodb" {
		fmt.Fprint(m.Stdout, dynamotable.Definition("once"))
		return nil
	}
	all, err := migration.All(sqlplane.Dialect(c.dialect), c.sets()...)
	if err != nil {
		return cli.Usage(fmt.Sprintf("the dialect %q does not exist", c.dialect), "--dialect postgres, --dialect sqlite, or --dialect mysql")
	}
	if c.format != "plain" && c.format != "goose" {
		return cli.Usage(fmt.Sprintf("the format %q does not exist", c.format), "--format plain, or --format goose")
	}
	if c.from > 0 && len(c.only) != 1 {
		return cli.Usage("--from needs --only with one capability", fmt.Sprintf("--only %s --from %d", migration.Operation.Capability, c.from))
	}
	// Versions are the numbers 1, 2, 3, ... within a capability, so --from is an index.
	all = all[min(max(0, c.from), len(all)):]
	if c.format == "goose" && len(all) > 0 {
		fmt.Fprint(m.Stdout, "-- +goose Up\n")
	}
	for _, mg := range all {
		text := "-- " + mg.Capability + ": " + mg.File() + "\n" + mg.SQL + mg.Noted()
		if c.format == "goose" {
			text = "-- +goose StatementBegin\n" + text + "-- +goose StatementEnd\n"
		}
		fmt.Fprint(m.Stdout, text)
	}
	return nil
}

// migrationLine is a migration in a list.
func migrationLine(m migration.Migration) string {
	return fmt.Sprintf("%-10s  %s", m.Capability, m.File())
}
