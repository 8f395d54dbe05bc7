package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
)

var (
	migrateUpEntry = entry{
		name: "migrate up", brief: "create or update the tables that keep operations",
		help: `Applies the migrations that the database does not have yet, in one transaction
(MySQL and MariaDB have none for that: there the next run completes one that was killed).
Nodes that start together may all run it. The business tables are not touched.`,
		make: func() command { return new(migrateUp) },
	}
	migrateStatusEntry = entry{
		quick: true, name: "migrate status", brief: "which migrations the database has",
		help: `Lists the migrations and whether the database has them. The exit code is 1 if
one is missing.`,
		make: func() command { return new(migrateStatus) },
	}
	migratePrintEntry = entry{
		name: "migrate print", brief: "the migrations as SQL, for goose, Atlas or psql",
		help: `Prints the migrations as plain SQL, with --format goose as the text of one
migration file of goose. There are forward migrations only. After an upgrade of
once, --from prints what is new.`,
		make: func() command { return new(migratePrint) },
	}
)

type migrateUp struct{ db string }

func (c *migrateUp) flags(fs *flag.FlagSet) { fs.StringVar(&c.db, "db", "", dbUsage) }

func (c *migrateUp) run(ctx context.Context, m *Main, _ []string) error {
	db, err := openDatabase(ctx, c.db, true)
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := sqlstore.Status(ctx, db.DB)
	if err != nil {
		return db.failed("read", err)
	}
	if err := sqlstore.Migrate(ctx, db.DB); err != nil {
		return db.failed("migrate", err)
	}
	for _, s := range before {
		if !s.Applied {
			fmt.Fprintf(m.Stdout, "applied  %s\n", fileName(s.Migration))
		}
	}
	fmt.Fprintf(m.Stdout, "%s is at version %d.\n", db.name, len(before))
	return nil
}

type migrateStatus struct{ db string }

func (c *migrateStatus) flags(fs *flag.FlagSet) { fs.StringVar(&c.db, "db", "", dbUsage) }

func (c *migrateStatus) run(ctx context.Context, m *Main, _ []string) error {
	db, err := openDatabase(ctx, c.db, false)
	if err != nil {
		return err
	}
	defer db.Close()
	status, err := sqlstore.Status(ctx, db.DB)
	if err != nil {
		return db.failed("read", err)
	}
	missing := 0
	for _, s := range status {
		word := "applied"
		if !s.Applied {
			word = "missing"
			missing++
		}
		fmt.Fprintf(m.Stdout, "%s  %s\n", word, fileName(s.Migration))
	}
	if missing > 0 {
		return fmt.Errorf("%s lacks %d of %d migrations. Try: once migrate up --db %s", db.name, missing, len(status), db.paste)
	}
	return nil
}

type migratePrint struct {
	dialect, format string
	from            int
}

func (c *migratePrint) flags(fs *flag.FlagSet) {
	fs.StringVar(&c.dialect, "dialect", "", "`NAME` of the database's SQL: postgres, sqlite or mysql")
	fs.StringVar(&c.format, "format", "plain", "`NAME` of the form: plain or goose")
	fs.IntVar(&c.from, "from", 0, "only migrations after this `VERSION`")
}

func (c *migratePrint) run(_ context.Context, m *Main, _ []string) error {
	if c.dialect == "" {
		return &usageError{"--dialect is missing", "once migrate print --dialect postgres"}
	}
	all, err := migration.All(store.Dialect(c.dialect))
	if err != nil {
		return &usageError{fmt.Sprintf("there is no dialect %q", c.dialect), "--dialect postgres, --dialect sqlite, or --dialect mysql"}
	}
	if c.format != "plain" && c.format != "goose" {
		return &usageError{fmt.Sprintf("there is no format %q", c.format), "--format plain, or --format goose"}
	}
	all = all[min(max(0, c.from), len(all)):]
	if c.format == "goose" && len(all) > 0 {
		fmt.Fprint(m.Stdout, "-- +goose Up\n")
	}
	for _, mg := range all {
		text := "-- " + fileName(mg) + "\n" + mg.SQL + mg.Noted()
		if c.format == "goose" {
			text = "-- +goose StatementBegin\n" + text + "-- +goose StatementEnd\n"
		}
		fmt.Fprint(m.Stdout, text)
	}
	return nil
}

func fileName(m migration.Migration) string { return fmt.Sprintf("%03d_%s.sql", m.Version, m.Name) }
