// Package migration contains the database schema of the SQL stores, and of each capability that has tables of
// its own, as numbered SQL files. The package has no down migrations (files that undo a migration). A program
// applies the files with the function Migrate of its store, and a person applies the files with the command
// "once migrate up". The command "once migrate print" prints the files for the migration tools goose and
// Atlas, or for a person who uses psql.
package migration

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/oncelib/once/store/sqlplane"
)

// Set contains the migrations of one capability, such as the attempt log. The migrations of each set have their
// own numbers, which begin with 1. The files are embedded in the package of the capability:
//
//	//go:embed migrations/*/*.sql
//	var migrations embed.FS
type Set struct {
	Capability string // in lower-case letters; the database stores this name with each applied migration
	Files      fs.FS  // files named FOLDER/DIALECT/NNN_NAME.sql, such as migrations/postgres/001_attempt.sql
}

//go:embed operation/*/*.sql
var operation embed.FS

// Operation is the set that every SQL store needs: the migrations of this set create the table of operations.
var Operation = Set{"operation", operation}

// Migration is one numbered SQL file.
type Migration struct {
	Capability string
	Version    int
	Name       string // such as "expiry"
	SQL        string
}

// File returns the name of the migration's file, such as "002_expiry.sql".
func (m Migration) File() string { return fmt.Sprintf("%03d_%s.sql", m.Version, m.Name) }

// Noted returns the SQL statements that record in the database that m was applied, for users who apply m with
// another tool.
func (m Migration) Noted() string {
	return createTable + ";\n" + m.note() + ";\n"
}

func (m Migration) note() string {
	return fmt.Sprintf("insert into once_schema (capability, version, name) values ('%s', %d, '%s')", m.Capability, m.Version, m.Name)
}

// All returns the migrations of sets for dialect d, one set after the other, and the migrations of each set
// in the order of their numbers. If several sets have the same capability, the result contains the migrations
// of this capability only one time.
func All(d sqlplane.Dialect, sets ...Set) ([]Migration, error) {
	var all []Migration
	seen := map[string]bool{}
	for _, s := range sets {
		if seen[s.Capability] {
			continue
		}
		seen[s.Capability] = true
		list, err := s.read(d)
		if err != nil {
			return nil, fmt.Errorf("migration: %s: %w", s.Capability, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

func (s Set) read(d sqlplane.Dialect) ([]Migration, error) {
	paths, err := fs.Glob(s.Files, "*/"+string(d)+"/*.sql") // sorted, and the names begin with the number
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there are no migrations for the dialect %q. Try: %s, %s or %s", d, sqlplane.PostgreSQL, sqlplane.SQLite, sqlplane.MySQL)
	}
	list := make([]Migration, len(paths))
	for i, p := range paths {
		text, err := fs.ReadFile(s.Files, p)
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(path.Base(p), ".sql"), "_")
		if v, err := strconv.Atoi(number); err != nil || v != i+1 {
			return nil, fmt.Errorf("the migration file %s must have the number %d, because the numbers of the files must have no gaps", p, i+1)
		}
		list[i] = Migration{s.Capability, i + 1, name, string(text)}
	}
	return list, nil
}

// Newest returns the newest version of each capability in list, such as "operation 3, journal 1". The parameter
// list must be in the order in which [All] returns migrations.
func Newest(list []Migration) string {
	var versions []string
	for i, m := range list {
		if i+1 == len(list) || list[i+1].Capability != m.Capability {
			versions = append(versions, fmt.Sprintf("%s %d", m.Capability, m.Version))
		}
	}
	return strings.Join(versions, ", ")
}
