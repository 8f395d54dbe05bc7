package testenv

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// Addr returns host:port. It stays the same after a restart.
func (m *MariaDB) Addr() string { return address(m.port) }

// DSN returns the data source name with which github.com/go-sql-driver/mysql reaches a database of the server over loopback
// TCP.
func (m *MariaDB) DSN(database string) string { return m.DSNVia(m.Addr(), database) }

// DSNVia is DSN with another address, such as that of a proxy in front of the
// server.
func (*MariaDB) DSNVia(addr, database string) string { return "root@tcp(" + addr + ")/" + database }

// URL returns the same data source as a URL.
func (m *MariaDB) URL(database string) string { return "mysql://root@" + m.Addr() + "/" + database }

// DataDir returns the server's data directory.
func (m *MariaDB) DataDir() string { return filepath.Join(m.dir.path, "data") }

// LogPath returns the file with the server's log since its first start.
func (m *MariaDB) LogPath() string { return filepath.Join(m.dir.path, "mariadb.log") }

// Pid returns the process number of the server, or 0 if the server is down.
func (m *MariaDB) Pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil || !m.server.running() {
		return 0
	}
	return m.server.pid()
}

// Done returns a channel that is closed when the server that runs now has ended.
func (m *MariaDB) Done() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		down := make(chan struct{})
		close(down)
		return down
	}
	return m.server.done
}

// Disk returns the disk of the data directory, or nil if the data directory has none.
func (m *MariaDB) Disk() *Disk { return m.disk }

// SetClock sets the server's clock ahead of the machine's clock, or back if ahead is negative. It has effect when the server
// reads its clock the next time.
func (m *MariaDB) SetClock(ahead time.Duration) error { return setClock(m.dir.path, m.who, ahead) }

// CreateDatabase makes an empty database.
func (m *MariaDB) CreateDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolPatience)
	defer cancel()
	_, err := m.Query(ctx, "", "create database `"+name+"`")
	return err
}

// DropDatabase removes a database. It waits for the transactions that still use it.
func (m *MariaDB) DropDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolPatience)
	defer cancel()
	_, err := m.Query(ctx, "", "drop database if exists `"+name+"`")
	return err
}

// Query runs SQL in the mariadb client and returns the rows. Columns are separated by tabs, and rows by newlines. The first
// statement that fails ends the run. Query needs no driver, and shares no connection with the system under test. So it can be
// a witness of what that system did.
func (m *MariaDB) Query(ctx context.Context, database, sql string) (string, error) {
	path, err := Binary("mariadb")
	if err != nil {
		return "", err
	}
	host, port, _ := strings.Cut(m.Addr(), ":")
	return runTool(ctx, identity{}, sql, path, "--no-defaults", "--protocol=tcp", "--host="+host, "--port="+port, "--user=root",
		"--default-character-set=utf8mb4", "--batch", "--raw", "--skip-column-names", "--database="+database)
}
