package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// PgBouncer is a connection pooler in front of a [Postgres]. In transaction mode every
// transaction of a client may run in another session of the server.
type PgBouncer struct {
	pg       *Postgres
	mode     string
	dir      *directory
	port     int
	database string

	closing sync.Once
	server  *process
	err     error // the error of Close
}

// StartPgBouncer starts a pooler in transaction mode in front of pg. Its URL leads to the given database, but the pooler serves
// other databases too. ctx limits only the start.
func StartPgBouncer(ctx context.Context, pg *Postgres, database string) (*PgBouncer, error) {
	return StartPgBouncerIn(ctx, "transaction", pg, database)
}

// StartPgBouncerIn is StartPgBouncer for another mode: session or statement.
func StartPgBouncerIn(ctx context.Context, mode string, pg *Postgres, database string) (*PgBouncer, error) {
	path, err := Binary("pgbouncer")
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-pgbouncer-", pg.who)
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{pg: pg, mode: mode, dir: dir, database: database}
	for range 10 { // as in StartPostgres
		if b.port, err = freePort(); err != nil {
			break
		}
		if err = b.launch(ctx, path); err == nil {
			return b, nil
		}
		if !portTaken(err) {
			break
		}
	}
	return nil, errors.Join(err, b.Close())
}

// URL returns the URL with which clients reach the database through the pooler.
func (b *PgBouncer) URL() string { return b.pg.URLVia(b.Addr(), b.database) }

// Addr returns host:port.
func (b *PgBouncer) Addr() string { return address(b.port) }

// LogPath returns the pooler's log.
func (b *PgBouncer) LogPath() string { return filepath.Join(b.dir.path, "pgbouncer.log") }

// PgBouncerUser is a user that a pooler accepts, and that may not ask for its settings. The test must make the
// role.
const PgBouncerUser = "service"

// Set changes a setting of the running pooler.
func (b *PgBouncer) Set(ctx context.Context, name, value string) error {
	_, err := psql(ctx, filepath.Join(b.pg.bin, "psql"), b.port, "pgbouncer", "set "+name+" = '"+value+"'")
	return err
}

// Close ends the pooler and its sessions at once. Close may be called
// twice.
func (b *PgBouncer) Close() error {
	b.closing.Do(func() {
		if b.server != nil {
			// The gentler signals mean different things in different versions, and a pooler has no data to
			// lose.
			b.err = b.server.stop(syscall.SIGKILL, time.Minute)
		}
		b.err = errors.Join(b.err, b.dir.remove())
	})
	return b.err
}

func (b *PgBouncer) launch(ctx context.Context, path string) error {
	config := filepath.Join(b.dir.path, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(b.config()), 0o644); err != nil { //nolint:gosec // another user reads it
		return err
	}
	if err := os.WriteFile(b.users(), []byte(`"`+superuser+`" ""`+"\n"+`"`+PgBouncerUser+`" ""`+"\n"), 0o644); err != nil { //nolint:gosec // no secret
		return err
	}
	log, file, err := openLog(b.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(path, config) //nolint:noctx // it outlives ctx
	cmd.Dir = b.dir.path
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, b.pg.who, syscall.SIGKILL, b.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: b.port, login: postgresLogin(b.port, b.database), log: log, bound: func() bool {
		return log.contains("listening on " + b.Addr())
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	b.server = server
	return nil
}

func (b *PgBouncer) users() string { return filepath.Join(b.dir.path, "users.txt") }

func (b *PgBouncer) config() string {
	return fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = %s
pool_mode = %s
max_client_conn = 1000
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
`, loopback, b.pg.Port(), loopback, b.port, b.users(), superuser, b.mode)
}
