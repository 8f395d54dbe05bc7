package testenv

import (
	"context"
	"errors"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// MariaDBConfig says in what a server differs from the default.
type MariaDBConfig struct {
	// MySQL starts a MySQL server. The start fails if Settings has settings that only MariaDB knows.
	MySQL bool

	// Settings are added to the server's command line after the defaults, such as {"transaction-isolation": "SERIALIZABLE"}.
	// The words of a name are separated by dashes.
	Settings map[string]string

	// Disk is the size in bytes of a file system in memory that holds the data directory. It needs an [Isolated] process. 0
	// means that the data is on the ordinary disk.
	Disk int64

	// Clock makes SetClock work. It needs faketime.
	Clock bool
}

// MariaDB is a private MariaDB server, or a MySQL server ([MariaDBConfig].MySQL). Several goroutines may call its methods at
// the same time.
type MariaDB struct {
	who    identity
	dir    *directory
	port   int
	config MariaDBConfig
	env    []string // in addition to the environment of every server
	disk   *Disk    // nil if the data has no disk of its own

	mu     sync.Mutex
	server *process // nil if the server is down
	closed bool
}

// StartMariaDB makes a data directory in a temporary directory, and starts a server on it. ctx limits only the start.
// Cancelling ctx later does not stop the server; Close stops it.
func StartMariaDB(ctx context.Context, config MariaDBConfig) (*MariaDB, error) {
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-mariadb-", who)
	if err != nil {
		return nil, err
	}
	m := &MariaDB{who: who, dir: dir, config: config}
	if err := m.initialise(ctx); err != nil {
		return nil, errors.Join(err, m.disk.unmount(), dir.remove())
	}
	for range 10 { // as in StartPostgres
		if m.port, err = freePort(); err != nil {
			break
		}
		if err = m.launch(ctx); err == nil {
			return m, nil
		}
		if !portTaken(err) {
			break
		}
	}
	return nil, errors.Join(err, m.Close())
}

func (m *MariaDB) initialise(ctx context.Context) error {
	program := "mariadb-install-db"
	// A server deletes all temporary tables that it finds at its start, even those of another server. So each has its own tmpdir.
	args := func(dir string) []string {
		return []string{
			"--no-defaults", "--innodb-log-file-size=" + logFileSize,
			"--auth-root-authentication-method=normal", "--skip-name-resolve", "--skip-test-db",
			"--datadir=" + dir, "--tmpdir=" + filepath.Dir(dir),
		}
	}
	if m.config.MySQL {
		program, args = "mysqld", mysqlInitialise
	}
	install, err := Binary(program)
	if err == nil && m.config.Clock {
		m.env, err = newClock(m.dir.path, m.who)
	}
	if err == nil && m.config.Disk > 0 {
		m.disk, err = mountDisk(m.DataDir(), m.config.Disk, m.who)
	}
	switch {
	case err != nil:
		return err
	case m.disk != nil: // the directory exists already, and is small
		_, err = runTool(ctx, m.who, "", install, args(m.DataDir())...)
	default:
		err = fromTemplate(ctx, m.who, m.DataDir(), install, args)
	}
	if err == nil && m.config.MySQL {
		err = m.becomeMySQL()
	}
	return err
}

const logFileSize = "32M"

// arguments returns the arguments of the server. By default, every COMMIT is on the disk before the server answers
// it.
func (m *MariaDB) arguments() []string {
	settings := map[string]string{
		"datadir":                 m.DataDir(),
		"tmpdir":                  m.dir.path,
		"socket":                  filepath.Join(m.dir.path, "socket"),
		"pid-file":                filepath.Join(m.DataDir(), "server.pid"), // the janitor looks there
		"bind-address":            loopback,
		"port":                    strconv.Itoa(m.port),
		"max-connections":         "300",
		"performance-schema":      "OFF",
		"innodb-buffer-pool-size": "64M",
		"innodb-use-native-aio":   "OFF", // containers may forbid it
		"character-set-server":    "utf8mb4",
		"skip-name-resolve":       "ON",
	}
	arguments := []string{"--no-defaults"}
	if m.config.MySQL {
		arguments = append(arguments, "--skip-log-bin") // as in MariaDB by default; a setting log-bin takes precedence
		maps.Copy(settings, m.mysqlSettings())
	} else {
		settings["innodb-log-file-size"] = logFileSize
	}
	maps.Copy(settings, m.config.Settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "--"+name+"="+settings[name])
	}
	return arguments
}

// launch starts the server and waits until it answers. The caller holds the lock, or is the only one that knows
// m.
func (m *MariaDB) launch(ctx context.Context) error {
	program := "mariadbd"
	if m.config.MySQL {
		program = "mysqld"
	}
	path, err := Binary(program)
	if err != nil {
		return err
	}
	log, file, err := openLog(m.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(path, m.arguments()...) //nolint:noctx // it outlives ctx
	cmd.Dir = m.DataDir()
	cmd.Env = append(cleanEnv(), m.env...)
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, m.who, syscall.SIGKILL, m.dir)
	if err != nil {
		return err
	}
	// The server writes this after it has recovered and holds its port.
	attempt := start{server: server, port: m.port, login: m.greets, log: log, bound: func() bool {
		return log.contains("ready for connections")
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	m.server = server
	return nil
}

// greets waits for the first packet, which the server sends without being asked.
func (m *MariaDB) greets(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", m.Addr())
	if err != nil {
		return errNotReady
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return errNotReady
	}
	return nil
}

// Stop shuts the server down cleanly.
func (m *MariaDB) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.halt(func(server *process) error { return server.stop(syscall.SIGTERM, time.Minute) })
}

// Kill crashes the server with SIGKILL. When Kill returns, no process of the server runs any more. After Restart, the
// committed data is there.
func (m *MariaDB) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	Count("servers killed", 1)
	return m.halt((*process).crash)
}

func (m *MariaDB) halt(how func(*process) error) error {
	if m.server == nil {
		return nil
	}
	err := how(m.server)
	m.server = nil
	return err
}

// Restart starts the server again on the same port and data: after Kill, after Stop, or after the server has died. A server
// that still runs is shut down cleanly first. Restart waits until the crash recovery has ended.
func (m *MariaDB) Restart(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("testenv: restart of a closed server")
	}
	err := m.halt(func(server *process) error { return server.stop(syscall.SIGTERM, time.Minute) })
	if err = errors.Join(err, sweep(m.DataDir())); err != nil {
		return err
	}
	for {
		err := m.launch(ctx)
		if !portTaken(err) || ctx.Err() != nil {
			return err
		}
	}
}

// RestartWith stops the server cleanly, and restarts it with more settings.
func (m *MariaDB) RestartWith(ctx context.Context, settings map[string]string) error {
	if err := m.Stop(); err != nil {
		return err
	}
	m.mu.Lock()
	all := maps.Clone(m.config.Settings)
	maps.Copy(all, settings)
	m.config.Settings = all
	m.mu.Unlock()
	return m.Restart(ctx)
}

// Close ends the server at once and removes its directory. Close may be called twice.
func (m *MariaDB) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	err := m.halt((*process).crash) // without a clean shutdown, because its data is thrown away
	return errors.Join(err, m.disk.unmount(), m.dir.remove())
}
