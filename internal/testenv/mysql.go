package testenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// mysqlInitialise returns the arguments with which mysqld makes a data directory.
func mysqlInitialise(dir string) []string {
	return []string{
		"--no-defaults", "--initialize-insecure", "--innodb-redo-log-capacity=" + logFileSize, "--secure-file-priv=",
		"--innodb-use-native-aio=OFF", "--datadir=" + dir, "--tmpdir=" + filepath.Dir(dir),
	}
}

// mysqlSettings returns the settings in which MySQL differs from MariaDB.
func (m *MariaDB) mysqlSettings() map[string]string {
	return map[string]string{
		"init-file":                m.initFile(),
		"innodb-redo-log-capacity": logFileSize,
		"mysqlx":                   "OFF", // it would need a second port
		"secure-file-priv":         "",    // the compiled-in directory of Debian does not exist here
	}
}

func (m *MariaDB) initFile() string { return filepath.Join(m.dir.path, "init.sql") }

// becomeMySQL prepares what only MySQL needs beside its data directory. In MySQL, root exists only at localhost, and no names
// are resolved here. A copied data directory has the server identity of its template, but servers that replicate need
// different identities.
func (m *MariaDB) becomeMySQL() error {
	const root = "set sql_log_bin = 0;\ncreate user if not exists root@'127.0.0.1';\ngrant all on *.* to root@'127.0.0.1' with grant option;\n"
	err := os.WriteFile(m.initFile(), []byte(root), 0o600)
	if err == nil {
		err = m.who.own(m.initFile())
	}
	if gone := os.Remove(filepath.Join(m.DataDir(), "auto.cnf")); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
