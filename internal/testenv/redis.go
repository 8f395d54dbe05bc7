package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// RedisConfig configures a server. With the zero value, the server writes nothing to the disk, and evicts nothing.
type RedisConfig struct {
	Valkey bool   // run Valkey instead of Redis
	Lines  string // additional lines of its configuration, such as "appendonly yes"
}

// Redis is a private Redis or Valkey server. Several goroutines may call its methods at the same time.
type Redis struct {
	who    identity
	dir    *directory
	port   int
	valkey bool

	mu     sync.Mutex
	lines  string   // additional lines of its configuration
	server *process // nil if the server is down
	closed bool
}

// StartRedis starts an empty server. ctx limits only the start.
func StartRedis(ctx context.Context, config RedisConfig) (*Redis, error) {
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-redis-", who)
	if err != nil {
		return nil, err
	}
	r := &Redis{who: who, dir: dir, valkey: config.Valkey, lines: config.Lines}
	if err := errors.Join(os.Mkdir(r.dataDir(), 0o700), who.own(r.dataDir())); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for range 10 { // as in StartPostgres
		if r.port, err = freePort(); err != nil {
			break
		}
		if err = r.launch(ctx); err == nil {
			return r, nil
		}
		if !portTaken(err) {
			break
		}
	}
	return nil, errors.Join(err, r.Close())
}

// Addr returns host:port. It stays the same after a restart.
func (r *Redis) Addr() string { return address(r.port) }

// Pid returns the server's process number, or 0 if the server is down.
func (r *Redis) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		return 0
	}
	return r.server.pid()
}

// Port returns the port of Addr.
func (r *Redis) Port() int { return r.port }

// LogPath returns the file with the server's log since its first start.
func (r *Redis) LogPath() string { return filepath.Join(r.dir.path, "redis.log") }

// Kill crashes the server with SIGKILL. After Restart, everything in its append-only file is there.
func (r *Redis) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halt()
}

// Freeze stops the server with SIGSTOP. Its connections stay open, and it answers nothing until Thaw. The kernel still accepts connections for it.
func (r *Redis) Freeze() error { return r.signal(stopSignal) }

// Thaw lets a frozen server continue.
func (r *Redis) Thaw() error { return r.signal(continueSignal) }

func (r *Redis) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		return errors.New("testenv: the server is down")
	}
	return r.server.cmd.Process.Signal(sig)
}

// Configure replaces the lines of the configuration with which the server starts the next time.
func (r *Redis) Configure(lines string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = lines
}

// Restart starts the server again on the same port and data. A server that still runs is killed first. Restart waits until the server has read its data.
func (r *Redis) Restart(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("testenv: restart of a closed server")
	}
	if err := errors.Join(r.halt(), sweep(r.dataDir())); err != nil {
		return err
	}
	for {
		err := r.launch(ctx)
		if !portTaken(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Close ends the server at once and removes its directory. Close may be called twice.
func (r *Redis) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return errors.Join(r.halt(), r.dir.remove())
}

func (r *Redis) dataDir() string { return filepath.Join(r.dir.path, "data") }

func (r *Redis) halt() error {
	if r.server == nil {
		return nil
	}
	Count("servers killed", 1)
	err := r.server.crash()
	r.server = nil
	return err
}

// program returns the name of the server's program.
func (r *Redis) program() string {
	if r.valkey {
		return "valkey-server"
	}
	return "redis-server"
}

func (r *Redis) config() string {
	return fmt.Sprintf("bind %s\nport %d\ndir %q\npidfile %q\nsave \"\"\nappendonly no\nrepl-diskless-sync-delay 0\n%s\n",
		loopback, r.port, r.dataDir(), filepath.Join(r.dataDir(), "redis.pid"), r.lines)
}

func (r *Redis) launch(ctx context.Context) error {
	path, err := Binary(r.program())
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir.path, "redis.conf")
	if err := os.WriteFile(config, []byte(r.config()), 0o644); err != nil { //nolint:gosec // another user reads it
		return err
	}
	log, file, err := openLog(r.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(path, config) //nolint:noctx // it outlives ctx
	cmd.Dir = r.dataDir()
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, r.who, syscall.SIGKILL, r.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: r.port, login: r.greets, log: log, bound: func() bool {
		return log.contains("eady to accept connections")
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	r.server = server
	return nil
}

// greets waits for an answer of the server, which answers only after it has read its data.
func (r *Redis) greets(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", r.Addr())
	if err != nil {
		return errNotReady
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return errNotReady
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "+PONG") {
		return errNotReady
	}
	return nil
}
