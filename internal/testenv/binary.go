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

// binaryDirEnv names the environment variable that chooses one of several installed PostgreSQL servers. So one machine can
// run the tests on each of them.
const binaryDirEnv = "ONCE_POSTGRES_BIN"

// mysqlDir is where make setup puts the MySQL server. The mysqld of Debian is that of MariaDB.
const mysqlDir = "/var/lib/once-testenv/mysql"

// valkeyDir is where make setup puts the Valkey server, if the system has none.
const valkeyDir = "/var/lib/once-testenv/valkey"

// mysqlDirEnv names the environment variable that chooses another directory with a mysqld. So one machine can run the
// tests on several versions.
const mysqlDirEnv = "ONCE_MYSQL_BIN"

// postgresTools are the programs that must come from one installation, because an initdb of one version and a postgres of
// another do not fit together.
var postgresTools = []string{"initdb", "postgres", "psql", "createdb", "dropdb"} //nolint:gochecknoglobals // a constant list

// Binary returns the path of an installed program. The programs of PostgreSQL (postgres, pg_ctl, pg_basebackup, psql, ...)
// come from the newest complete installation, and mysqld comes from where make setup has put it. All other programs come
// from PATH or from the usual sbin directories, which the PATH of an ordinary user often lacks.
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

// mysqlServer returns the path of mysqld. It does not look into PATH, where mysqld may be that of MariaDB.
func mysqlServer() (string, error) {
	dir := cmp.Or(os.Getenv(mysqlDirEnv), mysqlDir)
	if path := filepath.Join(dir, "mysqld"); isExecutable(path) {
		return path, nil
	}
	return "", fmt.Errorf("testenv: no mysqld in %s (%s chooses another directory): %w", dir, mysqlDirEnv, exec.ErrNotFound)
}

// postgresBinaryDir returns the directory of a complete PostgreSQL installation. It prefers the versioned directories to
// PATH: on Debian, the psql and createdb in PATH are scripts that look for a cluster, and postgres is not in PATH.
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

// versionOf returns the numbers in a path, so that 9.6 sorts before 15, and 15 before 18.
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
