package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// binaryDirEnv names the environment variable that picks one PostgreSQL among
// several installed ones, so that one machine can run the tests on each.
const binaryDirEnv = "ONCE_POSTGRES_BIN"

// mysqlDir is where make setup puts the MySQL server. Debian's mysqld is MariaDB's.
const mysqlDir = "/var/lib/once-testenv/mysql"

// valkeyDir is where make setup puts the Valkey server, unless the system has one.
const valkeyDir = "/var/lib/once-testenv/valkey"

// mysqlDirEnv names the environment variable that picks another directory with a mysqld, so that
// one machine can run the tests on several versions.
const mysqlDirEnv = "ONCE_MYSQL_BIN"

// postgresTools are the programs that must come from one installation: an
// initdb of one version and a postgres of another do not understand each other.
var postgresTools = []string{"initdb", "postgres", "psql", "createdb", "dropdb"} //nolint:gochecknoglobals // a constant list

// Binary returns the path of an installed program. The programs of PostgreSQL
// (postgres, pg_ctl, pg_basebackup, psql, ...) come from the newest complete
// installation, mysqld from where make setup has put it, everything else from PATH or the
// usual sbin directories, which an ordinary user's PATH often lacks.
func Binary(name string) (string, error) {
	if name == "mysqld" {
		return mysqlServer()
	}
	if dir, err := postgresBinaryDir(); err == nil {
		if path := filepath.Join(dir, name); isExecutable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", valkeyDir} {
		if path := filepath.Join(dir, name); isExecutable(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("testenv: %q is neither in PATH nor in an sbin directory: %w", name, exec.ErrNotFound)
}

// mysqlServer does not look into PATH: a mysqld there may be MariaDB's.
func mysqlServer() (string, error) {
	dir := cmp.Or(os.Getenv(mysqlDirEnv), mysqlDir)
	if path := filepath.Join(dir, "mysqld"); isExecutable(path) {
		return path, nil
	}
	return "", fmt.Errorf("testenv: no mysqld in %s (%s chooses another directory): %w", dir, mysqlDirEnv, exec.ErrNotFound)
}

// postgresBinaryDir prefers the versioned directories to PATH: on Debian the
// psql and createdb in PATH are wrapper scripts that look for a cluster, and
// postgres itself is not in PATH at all.
func postgresBinaryDir() (string, error) {
	if dir := os.Getenv(binaryDirEnv); dir != "" {
		if missing := missingTools(dir); len(missing) > 0 {
			return "", fmt.Errorf("testenv: %s=%s lacks %s", binaryDirEnv, dir, strings.Join(missing, ", "))
		}
		return dir, nil
	}
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		dirs = append(dirs, found...)
	}
	slices.SortStableFunc(dirs, func(a, b string) int {
		return slices.Compare(versionOf(b), versionOf(a)) // newest first
	})
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	for _, dir := range dirs {
		if len(missingTools(dir)) == 0 {
			return dir, nil
		}
	}
	return "", errors.New("testenv: no complete PostgreSQL server installation in PATH or /usr/lib/postgresql/*/bin")
}

func missingTools(dir string) []string {
	return slices.DeleteFunc(slices.Clone(postgresTools), func(tool string) bool {
		return isExecutable(filepath.Join(dir, tool))
	})
}

// versionOf returns the numbers in a path, so that 9.6 sorts below 15 and 15
// below 18.
func versionOf(path string) []int {
	var numbers []int
	for _, field := range strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(field); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func isExecutable(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // the environment of a test may point anywhere
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
