package testenv

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// packages maps the software that Need knows to the Debian package that contains it. Any other name is taken as a program
// in a package of the same name.
var packages = map[string]string{ //nolint:gochecknoglobals // a constant table
	"postgresql":    "postgresql",
	"psql":          "postgresql-client",
	"pg_basebackup": "postgresql-client",
	"pgbouncer":     "pgbouncer",
	"promtool":      "prometheus",
	"strace":        "strace",
	"gcc":           "gcc",
	"mariadb":       "mariadb-server-core mariadb-client-core",
	"mysql":         "", // make setup unpacks it
	"faketime":      "faketime",
	"node":          "nodejs",
	"aiosmtpd":      "python3-aiosmtpd",
	"rabbitmq":      "rabbitmq-server",
	"chromium":      "chromium",
	"valkey-server": "", // likewise
}

// Need ends the test unless all of the software is installed. It skips the test, and names what is missing and how to install
// it. If the environment has CI=true, Need fails the test: a CI run that has skipped important tests must not look green.
//
// "postgresql", "mariadb", "mysql" and "rabbitmq" stand for complete server installations. Any other name is the name of a
// program, such as "pgbouncer" or "strace".
func Need(tb testing.TB, software ...string) {
	tb.Helper()
	if text := missing(software); text != "" {
		Lacks(tb, text)
	}
}

// Lacks ends the test because something is missing. It skips or fails the test as Need does.
func Lacks(tb testing.TB, text string) {
	tb.Helper()
	if inCI() {
		tb.Fatal(text)
	} else {
		tb.Skip(text)
	}
}

func inCI() bool { return os.Getenv("CI") == "true" }

// missing returns the sentence to skip or fail with, or "" if all of the software is
// installed.
func missing(software []string) string {
	if runtime.GOOS != "linux" {
		return "testenv: servers are started on Linux only, this is " + runtime.GOOS +
			".\nTry: run the tests on Linux, in a container or a virtual machine"
	}
	var names, debs []string
	for _, name := range software {
		if err := lookFor(name); err != nil {
			deb, known := packages[name]
			if !known {
				deb = name
			}
			names = append(names, fmt.Sprintf("%s (%s)", name, strings.TrimPrefix(err.Error(), "testenv: ")))
			if deb != "" {
				debs = append(debs, deb)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := fmt.Sprintf("testenv: this test needs software that is not installed: %s.\nTry: make setup", strings.Join(names, "; "))
	if len(debs) > 0 {
		text += ", or: apt-get install " + strings.Join(debs, " ")
	}
	return text
}

func lookFor(name string) error {
	switch name {
	case "postgresql":
		_, err := postgresBinaryDir()
		return err
	case "faketime":
		_, err := clockLibrary()
		return err
	case "mariadb":
		return lookForAll("mariadbd", "mariadb-install-db", "mariadb")
	case "mysql": // MariaDB's client runs the queries of the tests
		return lookForAll("mysqld", "mariadb")
	case "rabbitmq":
		if !isExecutable(rabbitScript) {
			return fmt.Errorf("testenv: no %s", rabbitScript)
		}
		return lookForAll("epmd", "erl")
	}
	return lookForAll(name)
}

func lookForAll(programs ...string) error {
	for _, program := range programs {
		if _, err := Binary(program); err != nil {
			return err
		}
	}
	return nil
}
