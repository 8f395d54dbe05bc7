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

// PostgresConfig says in what a server differs from the default.
type PostgresConfig struct {
	// Settings are added to postgresql.conf after the defaults, such as {"fsync": "off"}. Names are case-insensitive. Values
	// are quoted.
	Settings map[string]string

	// Disk is the size in bytes of a file system in memory that holds the data directory. It needs an [Isolated] process. 0
	// means that the data is on the ordinary disk.
	Disk int64

	// Clock makes SetClock work. It needs faketime.
	Clock bool
}

// Postgres is a private PostgreSQL server. Several goroutines may call its methods at the same
// time.
type Postgres struct {
	who  identity
	bin  string
	dir  *directory
	port int
	env  []string // in addition to the environment of every server
	disk *Disk    // nil if the data has no disk of its own

	mu     sync.Mutex
	server *process // nil if the server is down
	closed bool
}

// StartPostgres makes a database cluster in a temporary directory, and starts a server on it. ctx limits only the start.
// Cancelling ctx later does not stop the server; Close stops it.
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

// start chooses a port and starts the server on it. It tries again if another process has taken the port
// meanwhile.
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

// initialise runs initdb and writes the settings. Only initdb runs without fsync: if the machine crashes meanwhile, nothing of
// value is lost.
func (p *Postgres) initialise(ctx context.Context, config PostgresConfig) error {
	args := []string{"--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"}
	err := p.makeSocketDir()
	if err == nil && config.Clock {
		p.env, err = newClock(p.dir.path, p.who)
	}
	if err == nil && config.Disk > 0 {
		args = append(args, "--wal-segsize=1") // the smallest size
		p.disk, err = mountDisk(p.DataDir(), config.Disk, p.who)
	}
	if err == nil {
		initdb, at := filepath.Join(p.bin, "initdb"), func(dir string) []string { return append(slices.Clone(args), "--pgdata="+dir) }
		if p.disk != nil { // the directory exists already, and is small
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

// launch starts the server and waits until it answers. The caller holds the lock, or is the only one that knows
// p.
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
	// After SIGQUIT, a postmaster ends its children at once, too.
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

// lockFileSays reports whether a postmaster has this status in its lock file. A postmaster writes the status only after it
// holds its port.
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

// Stop shuts the server down cleanly. The server ends its sessions, rolls their open transactions back, and writes a
// checkpoint.
func (p *Postgres) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halt(func(server *process) error { return server.stop(syscall.SIGINT, time.Minute) })
}

// Kill crashes the server: it sends SIGKILL to the postmaster and to every backend. When Kill returns, none of them runs any
// more. After Restart, the committed data is there.
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

// Restart starts the server again on the same port and data: after Kill, after Stop, or after the server has died. A server
// that still runs is shut down cleanly first. Restart waits until the crash recovery has ended and logins are answered.
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

// WaitReady waits until the server answers logins again, for example while it recovers from the death of a backend. Call it
// after the client of that backend has seen the end. Before that, the server may not have noticed anything yet, and then
// counts as ready.
func (p *Postgres) WaitReady(ctx context.Context) error {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	if server == nil {
		return errors.New("testenv: the server is down. Try: Restart")
	}
	log := &serverLog{path: p.LogPath()}
	attempt := start{server: server, port: p.port, login: postgresLogin(p.port, superuser), log: log, bound: func() bool {
		// A postmaster that has noticed a crashed child refuses logins until it has recovered. Before that it would still accept
		// logins.
		return !losesChild(server.pid())
	}}
	return attempt.await(ctx)
}

// Close stops the server at once and removes its directory. Close may be called
// twice.
func (p *Postgres) Close() error {
	const patience = 10 * time.Second // postgres itself kills all processes that do not end within 5 s
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.halt(func(server *process) error { return server.stop(syscall.SIGQUIT, patience) })
	return errors.Join(err, p.disk.unmount(), p.dir.remove())
}
