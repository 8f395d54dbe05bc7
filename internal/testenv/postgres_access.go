package testenv

import (
	"context"
	"net/url"
	"path/filepath"
	"strconv"
	"time"
)

// toolPatience bounds one run of createdb or dropdb.
const toolPatience = time.Minute

// URL returns the URL with which clients reach a database of the server over loopback TCP.
func (p *Postgres) URL(database string) string { return p.URLVia(p.Addr(), database) }

// URLVia is URL with another address, such as that of a proxy in front of the
// server.
func (*Postgres) URLVia(addr, database string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Host:     addr,
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}).String()
}

// Addr returns host:port. It stays the same after a restart.
func (p *Postgres) Addr() string { return address(p.port) }

// Port returns the TCP port, which is also the number in the socket's name.
func (p *Postgres) Port() int { return p.port }

// SocketDir returns the directory of the Unix socket.
func (p *Postgres) SocketDir() string { return filepath.Join(p.dir.path, "socket") }

// DataDir returns the directory of the cluster.
func (p *Postgres) DataDir() string { return filepath.Join(p.dir.path, "data") }

// LogPath returns the file with the server's log since its first start.
func (p *Postgres) LogPath() string { return filepath.Join(p.dir.path, "postgres.log") }

// Pid returns the process number of the postmaster, or 0 if the server is down.
func (p *Postgres) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil || !p.server.running() {
		return 0
	}
	return p.server.pid()
}

// Disk returns the disk of the data directory, or nil if the data directory has none.
func (p *Postgres) Disk() *Disk { return p.disk }

// SetClock sets the server's clock ahead of the machine's clock, or back if ahead is negative. It has effect when the server
// reads its clock the next time.
func (p *Postgres) SetClock(ahead time.Duration) error { return setClock(p.dir.path, p.who, ahead) }

// CreateDatabase makes an empty database.
func (p *Postgres) CreateDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolPatience)
	defer cancel()
	_, err := p.tool(ctx, "", "createdb", "--maintenance-db="+superuser, "--", name)
	return err
}

// DropDatabase removes a database. It ends the sessions that still use the database.
func (p *Postgres) DropDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolPatience)
	defer cancel()
	_, err := p.tool(ctx, "", "dropdb", "--maintenance-db="+superuser, "--if-exists", "--force", "--", name)
	return err
}

// Query runs SQL in psql and returns the rows, unaligned. Columns are separated by |, and rows by newlines. The first statement
// that fails ends the run. Query needs no driver, and shares no connection with the system under test. So it can be a
// witness of what that system did.
func (p *Postgres) Query(ctx context.Context, database, sql string) (string, error) {
	return psql(ctx, filepath.Join(p.bin, "psql"), p.port, database, sql)
}

func psql(ctx context.Context, path string, port int, database, sql string) (string, error) {
	return runTool(ctx, identity{}, sql, path,
		"--host="+loopback, "--port="+strconv.Itoa(port), "--username="+superuser, "--dbname="+database,
		"--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-")
}

func (p *Postgres) tool(ctx context.Context, input, name string, args ...string) (string, error) {
	args = append([]string{"--host=" + loopback, "--port=" + strconv.Itoa(p.port), "--username=" + superuser}, args...)
	return runTool(ctx, identity{}, input, filepath.Join(p.bin, name), args...)
}
