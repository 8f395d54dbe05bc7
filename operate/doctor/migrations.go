package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

var creates = regexp.MustCompile(`create table (\w+)`)

// askMigrations compares the migrations with the tables of the database. A capability without any table is not in use. A capability with only some of
// its tables is a failure.
func askMigrations(ctx context.Context, p *examination) (Finding, error) {
	if p.Status == nil {
		return Finding{}, nil
	}
	status, err := p.Status(ctx)
	if err != nil {
		return Finding{}, err
	}
	var capabilities []string
	var has, lacks []migration.Migration
	all, missing := map[string]int{}, map[string]int{}
	for _, s := range status {
		// The list keeps the order of the capabilities, which a map would lose.
		if all[s.Capability]++; all[s.Capability] == 1 {
			capabilities = append(capabilities, s.Capability)
		}
		if s.Applied {
			has = append(has, s.Migration)
		} else {
			missing[s.Capability]++
			lacks = append(lacks, s.Migration)
		}
	}
	lacksOperations := missing[migration.Operation.Capability] > 0 && !hasOnlyReceipts(has)
	// On MySQL a failed migration cannot be rolled back, so the doctor tries it first without writing.
	if p.Dialect == sqlplane.MySQL && lacksOperations {
		if err := p.rehearse(ctx, lacks); err != nil {
			what, try := words.Advice(sqlguard.Said(err).Error())
			return fail("tables are missing, and once migrate up would fail: "+what, words.Either(try != "", try, migrateAdvice(err))), nil
		}
	}
	// The list of migrations does not show that a person has dropped a table.
	if m, table := p.dropped(ctx, has); table != "" {
		return fail(fmt.Sprintf("the table once_schema lists the migration %s %d, but the table %s of this migration does not exist: each use of the table fails", m.Capability, m.Version, table),
			fmt.Sprintf("restore the table from a backup; or run the statement delete from once_schema where capability = '%s', and then once migrate up --db %s", m.Capability, p.URL)), nil
	}
	var unused []string
	for _, name := range capabilities {
		used := slices.ContainsFunc(has, func(m migration.Migration) bool { return m.Capability == name })
		switch n := missing[name]; {
		case name == migration.Operation.Capability && lacksOperations:
			return fail(fmt.Sprintf("%d of %d migrations of %s are missing: operations fail", n, all[name], name), "once migrate up --db "+p.URL), nil
		case n > 0 && used:
			return fail(fmt.Sprintf("%d of %d migrations of %s are missing: each use of the tables of %s fails", n, all[name], name, name), "once migrate up --only "+name+" --db "+p.URL), nil
		case n > 0:
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		return fine("all migrations of %s are applied; the database has no tables of %s", migration.Newest(has), strings.Join(unused, ", ")), nil
	}
	return fine("all migrations are applied: %s", migration.Newest(has)), nil
}

// hasOnlyReceipts reports whether only the table of receipts was migrated. This is the database of a service behind a gateway: the service writes
// receipts and executes no operations.
func hasOnlyReceipts(has []migration.Migration) bool {
	return len(has) > 0 && !slices.ContainsFunc(has, func(m migration.Migration) bool { return m.Capability != "receipt" })
}

// dropped returns a table that an applied migration has created and that does not exist now, or "".
func (p *examination) dropped(ctx context.Context, has []migration.Migration) (migration.Migration, string) {
	for _, m := range has {
		for _, match := range creates.FindAllStringSubmatch(m.SQL, -1) {
			if strings.Contains(m.SQL, "alter table "+match[1]+" rename to ") { // a later migration has renamed the table
				continue
			}
			if ok, err := p.has(ctx, match[1]); err == nil && !ok {
				return m, match[1]
			}
		}
	}
	return migration.Migration{}, ""
}

// migrateAdvice is the advice for an error with which MySQL or MariaDB refuses a migration.
func migrateAdvice(err error) string {
	switch code, _ := sqlguard.MySQLCode(err); code {
	case 1901, 3770: // an expression with a function that the server does not allow there
		return fmt.Sprintf("use MySQL %s or MariaDB %s. This server refuses the SQL of the migration itself, so a user with more privileges does not help", testedMySQL, testedMariaDB)
	}
	return "use the URL of a user who may create, alter and index tables in this database"
}
