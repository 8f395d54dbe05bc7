package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorSQLite: what belongs to a connection is seen in its data source name.
func TestDoctorSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "app.db")
	run(t, "migrate", "up", "--db", "sqlite:"+file).want(t, 0)
	dsn := func(journal, synchronous, busy string) string {
		return "file:" + file + "?_pragma=busy_timeout(" + busy + ")&_pragma=journal_mode(" + journal + ")&_pragma=synchronous(" + synchronous + ")"
	}
	for _, c := range []struct {
		db, check string
		level     level
		says      string
	}{
		{dsn("wal", "full", "5000"), "journal_mode", okay, "WAL"},
		{"sqlite:" + file, "journal_mode", okay, "WAL"},
		{dsn("wal", "full", "5000"), "synchronous", okay, "FULL"},
		{dsn("wal", "extra", "5000"), "synchronous", okay, "EXTRA"},
		{dsn("wal", "normal", "5000"), "synchronous", warn, "power failure"},
		{dsn("wal", "off", "5000"), "synchronous", fail, "power failure"},
		{"sqlite:" + file, "synchronous", okay, "in the connection of the doctor"},
		{dsn("wal", "full", "5000"), "busy_timeout", okay, "5000 ms"},
		{dsn("wal", "full", "50"), "busy_timeout", warn, "50 ms"},
		{dsn("wal", "full", "0"), "busy_timeout", fail, "refuses"},
		{dsn("delete", "full", "5000"), "journal_mode", warn, "delete"},
		{dsn("memory", "full", "5000"), "journal_mode", fail, "destroys the file"},
		{dsn("off", "full", "5000"), "journal_mode", fail, "a part of a failed operation"},
		{"sqlite:" + file, "filesystem", okay, "local"},
		{"sqlite:" + file, "migrations", okay, "all"},
	} {
		examined(t, c.db)[c.check].want(t, c.db, c.level, c.says)
	}
	missing := filepath.Join(t.TempDir(), "missing.db")
	for _, db := range []string{"sqlite:" + missing, "file:" + missing} {
		if o := run(t, "doctor", "--db", db).want(t, 4); !strings.Contains(o.stderr, "Try: ") || o.stdout != "" {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
	}
	if left, _ := filepath.Glob(missing + "*"); len(left) > 0 {
		t.Error("the doctor has made a file:", left)
	}
}

// TestDoctorOfReceiptsAlone: the database of a service that only writes receipts needs no operations. A database with other tables needs them.
func TestDoctorOfReceiptsAlone(t *testing.T) {
	t.Parallel()
	db := sqliteURL(t)
	run(t, "migrate", "up", "--only", "receipt", "--db", db).want(t, 0)
	run(t, "doctor", "--db", db).want(t, 0)
	examined(t, db)["migrations"].want(t, db, okay, "has no tables of operation")
	run(t, "migrate", "up", "--only", "outbox", "--db", db).want(t, 0)
	examined(t, db)["migrations"].want(t, db, fail, "operations fail")
}
