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

// NATS is a private nats-server with JetStream, whose streams are on the disk. Several goroutines may call its methods at the same
// time.
type NATS struct {
	who  identity
	dir  *directory
	port int
	more string // additional lines of its configuration

	mu     sync.Mutex
	server *process // nil when it is down
	closed bool
}

// StartNATS starts a server without streams. ctx limits only the start.
func StartNATS(ctx context.Context) (*NATS, error) {
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-nats-", who)
	if err != nil {
		return nil, err
	}
	n := &NATS{who: who, dir: dir}
	if err := os.Mkdir(n.dataDir(), 0o700); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if err := who.own(n.dataDir()); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	for range 10 { // as in StartPostgres
		if n.port, err = freePort(); err != nil {
			break
		}
		if err = n.launch(ctx); err == nil {
			return n, nil
		}
		if !natsPortTaken(err) {
			break
		}
	}
	return nil, errors.Join(err, n.Close())
}

// natsPortTaken does for this server what portTaken does for databases.
func natsPortTaken(err error) bool {
	var failed *startError
	return errors.As(err, &failed) && strings.Contains(failed.log, "address already in use")
}

// Addr returns host:port. It stays the same after a restart.
func (n *NATS) Addr() string { return address(n.port) }

// URL returns the URL with which clients reach the server.
func (n *NATS) URL() string { return "nats://" + n.Addr() }

// LogPath returns the file with the server's log since its first start.
func (n *NATS) LogPath() string { return filepath.Join(n.dir.path, "nats.log") }

// Kill crashes the server with SIGKILL. After Restart, everything that the server has confirmed is there.
func (n *NATS) Kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.halt()
}

// Configure adds lines to the configuration with which the server starts the next time.
func (n *NATS) Configure(lines string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.more = lines
}

// Restart starts the server again on the same port and data. A server that still runs is killed first.
func (n *NATS) Restart(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errors.New("testenv: restart of a closed server")
	}
	if err := errors.Join(n.halt(), sweep(n.dataDir())); err != nil {
		return err
	}
	for {
		err := n.launch(ctx)
		if !natsPortTaken(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Close ends the server at once and removes its directory. Close may be called twice.
func (n *NATS) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	return errors.Join(n.halt(), n.dir.remove())
}

func (n *NATS) dataDir() string { return filepath.Join(n.dir.path, "data") }

func (n *NATS) halt() error {
	if n.server == nil {
		return nil
	}
	Count("servers killed", 1)
	err := n.server.crash()
	n.server = nil
	return err
}

func (n *NATS) config() string {
	return fmt.Sprintf("listen: %q\npid_file: %q\njetstream { store_dir: %q }\n%s",
		n.Addr(), filepath.Join(n.dataDir(), "nats.pid"), n.dataDir(), n.more)
}

func (n *NATS) launch(ctx context.Context) error {
	path, err := Binary("nats-server")
	if err != nil {
		return err
	}
	config := filepath.Join(n.dir.path, "nats.conf")
	if err := os.WriteFile(config, []byte(n.config()), 0o644); err != nil { //nolint:gosec // another user reads it
		return err
	}
	log, file, err := openLog(n.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(path, "-c", config) //nolint:noctx // it outlives ctx
	cmd.Dir = n.dataDir()
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, n.who, syscall.SIGKILL, n.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: n.port, login: n.greets, log: log, bound: func() bool {
		return log.contains("Server is ready")
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash())
	}
	n.server = server
	return nil
}

// greets waits for the first line that the server sends.
func (n *NATS) greets(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", n.Addr())
	if err != nil {
		return errNotReady
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") {
		return errNotReady
	}
	return nil
}
