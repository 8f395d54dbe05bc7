package testenv

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const superuser = "postgres"

// PostgresConfig says how a server differs from the default.
type PostgresConfig struct {
	// Settings go into postgresql.conf after the defaults, such as
	// {"fsync": "off"}. Names are case-insensitive, values are quoted.
	Settings map[string]string

	// Disk, in bytes, is the size of a file system in memory that holds the data
	// directory, for an [Isolated] process. 0: the data is where other files are.
	Disk int64

	// Clock makes SetClock work. It needs faketime.
	Clock bool
}

// Postgres is a private PostgreSQL server. Its methods may be called by several
// goroutines at once.
type Postgres struct {
	who  identity
	bin  string
	dir  *directory
	port int
	env  []string // beside what every server gets
	disk *Disk    // nil: it has none of its own

	mu     sync.Mutex
	server *process // nil when it is down
	closed bool
}

// StartPostgres makes a new database cluster in a temporary directory and starts
// a server on it. The context bounds the start only: cancelling it later does
// not stop the server, Close does.
func StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	bin, err := postgresBinaryDir()
	if err != nil {
		return nil, err
	}
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-postgres-", who)
	if err != nil {
		return nil, err
	}
	p := &Postgres{who: who, bin: bin, dir: dir}
	if err := p.initialise(ctx, config); err != nil {
		return nil, errors.Join(err, p.disk.unmount(), dir.remove())
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// start picks a port and starts the server on it. Between the choice of a port and
// its use, another process may take it.
func (p *Postgres) start(ctx context.Context) (err error) {
	for range 10 {
		if p.port, err = freePort(); err != nil {
			return err
		}
		if err = p.launch(ctx); !portTaken(err) {
			return err
		}
	}
	return err
}

// initialise runs initdb and writes the settings. Only initdb goes without
// fsync: a machine that crashes while it runs loses nothing of value.
func (p *Postgres) initialise(ctx context.Context, config PostgresConfig) error {
	args := []string{"--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"}
	err := p.makeSocketDir()
	if err == nil && config.Clock {
		p.env, err = newClock(p.dir.path, p.who)
	}
	if err == nil && config.Disk > 0 {
		args = append(args, "--wal-segsize=1") // the least there is
		p.disk, err = mountDisk(p.DataDir(), config.Disk, p.who)
	}
	if err == nil {
		initdb, at := filepath.Join(p.bin, "initdb"), func(dir string) []string { return append(slices.Clone(args), "--pgdata="+dir) }
		if p.disk != nil { // the directory is there, and is small
			_, err = runTool(ctx, p.who, "", initdb, at(p.DataDir())...)
		} else {
			err = fromTemplate(ctx, p.who, p.DataDir(), initdb, at)
		}
	}
	if err != nil {
		return err
	}
	return p.configure(config)
}

func (p *Postgres) makeSocketDir() error {
	if err := os.Mkdir(p.SocketDir(), 0o755); err != nil { //nolint:gosec // clients of any user connect
		return err
	}
	return p.who.own(p.SocketDir())
}

// launch starts the server and waits until it answers. The caller holds the lock
// or is the only one who knows p.
func (p *Postgres) launch(ctx context.Context) error {
	log, file, err := openLog(p.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(filepath.Join(p.bin, "postgres"), "-D", p.DataDir(), "-p", strconv.Itoa(p.port)) //nolint:noctx // it outlives ctx
	cmd.Dir = p.dir.path
	cmd.Env = append(cleanEnv(), p.env...)
	cmd.Stdout, cmd.Stderr = file, file
	// SIGQUIT makes a postmaster take its children along at once.
	server, err := startProcess(cmd, p.who, syscall.SIGQUIT, p.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: p.port, login: postgresLogin(p.port, superuser), log: log, bound: func() bool {
		return p.lockFileSays(server.pid(), "ready") || p.lockFileSays(server.pid(), "standby")
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	p.server = server
	return nil
}

// lockFileSays reads the status that a postmaster keeps in its lock file. It
// writes it only after it holds its port.
func (p *Postgres) lockFileSays(pid int, status string) bool {
	const pidLine, statusLine = 0, 7
	text, err := os.ReadFile(filepath.Join(p.DataDir(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > statusLine && lines[pidLine] == strconv.Itoa(pid) &&
		strings.TrimSpace(lines[statusLine]) == status
}

// Stop shuts the server down cleanly: sessions are ended, their open
// transactions rolled back, a checkpoint is written.
func (p *Postgres) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halt(func(server *process) error { return server.stop(syscall.SIGINT, time.Minute) })
}

// Kill crashes the server: SIGKILL to the postmaster and every backend. When it
// returns, none of them runs any more. What was committed is there after
// Restart.
func (p *Postgres) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	Count("servers killed", 1)
	return p.halt((*process).crash)
}

func (p *Postgres) halt(how func(*process) error) error {
	if p.server == nil {
		return nil
	}
	err := how(p.server)
	p.server = nil
	return err
}

// Restart starts the server again on the same port and data, after Kill, Stop or
// a death of its own; a server that still runs is shut down cleanly first. It
// waits until crash recovery is over and logins are answered.
func (p *Postgres) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("testenv: restart of a closed server")
	}
	err := p.halt(func(server *process) error { return server.stop(syscall.SIGINT, time.Minute) })
	if err = errors.Join(err, sweep(p.DataDir())); err != nil {
		return err
	}
	for {
		err := p.launch(ctx)
		if !portTaken(err) || ctx.Err() != nil {
			return err
		}
	}
}

// WaitReady waits until the server answers logins again, for example when it
// recovers by itself from the death of a backend. Call it when the client of that
// backend has seen the end: before, a server that has noticed nothing yet counts
// as ready.
func (p *Postgres) WaitReady(ctx context.Context) error {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	if server == nil {
		return errors.New("testenv: the server is down. Try: Restart")
	}
	log := &serverLog{path: p.LogPath()}
	attempt := start{server: server, port: p.port, login: postgresLogin(p.port, superuser), log: log, bound: func() bool {
		// A postmaster that has reaped a crashed child refuses logins until it has
		// recovered; before that it would still let us in.
		return !losesChild(server.pid())
	}}
	return attempt.await(ctx)
}

// Close stops the server at once and removes its directory. Closing twice is
// allowed.
func (p *Postgres) Close() error {
	const patience = 10 * time.Second // postgres itself kills what does not end within 5
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.halt(func(server *process) error { return server.stop(syscall.SIGQUIT, patience) })
	return errors.Join(err, p.disk.unmount(), p.dir.remove())
}
