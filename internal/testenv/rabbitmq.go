package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// rabbitScript starts the server, and rabbitControl controls it. The scripts of these names in PATH change the user and run as another process.
const (
	rabbitScript  = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	rabbitControl = "/usr/lib/rabbitmq/bin/rabbitmqctl"
)

// RabbitMQ is a private node of RabbitMQ, with its own epmd, whose queues are on the disk. Several goroutines may call its methods at the
// same time.
type RabbitMQ struct {
	who   identity
	dir   *directory
	ports struct{ client, node, epmd int }
	more  string // additional lines of its configuration

	mu     sync.Mutex
	epmd   *process
	server *process // nil if the server is down
	closed bool
}

// StartRabbitMQ starts a node without queues. ctx limits only the start.
func StartRabbitMQ(ctx context.Context) (*RabbitMQ, error) {
	who, err := serverIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := newDirectory("once-rabbitmq-", who)
	if err != nil {
		return nil, err
	}
	r := &RabbitMQ{who: who, dir: dir}
	if err := os.Mkdir(r.dataDir(), 0o700); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := who.own(r.dataDir()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for range 10 { // as in StartPostgres
		if err = r.choosePorts(); err != nil {
			break
		}
		if err = r.startEpmd(); err != nil {
			break
		}
		if err = r.launch(ctx); err == nil {
			return r, nil
		}
		err = errors.Join(err, r.stopEpmd())
		if !rabbitPortTaken(err) {
			break
		}
	}
	return nil, errors.Join(err, r.Close())
}

func (r *RabbitMQ) choosePorts() (err error) {
	for _, port := range []*int{&r.ports.client, &r.ports.node, &r.ports.epmd} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	return nil
}

// rabbitPortTaken does for this server what portTaken does for databases.
func rabbitPortTaken(err error) bool {
	var failed *startError
	return errors.As(err, &failed) && (strings.Contains(failed.log, "eaddrinuse") || strings.Contains(failed.log, "epmd error"))
}

// Addr returns host:port. It stays the same after a restart.
func (r *RabbitMQ) Addr() string { return address(r.ports.client) }

// URL returns the URL with which clients reach the server.
func (r *RabbitMQ) URL() string { return "amqp://guest:guest@" + r.Addr() + "/" }

// LogPath returns the file with the server's log since its first start.
func (r *RabbitMQ) LogPath() string { return filepath.Join(r.dir.path, "rabbitmq.log") }

// Configure adds lines to the configuration with which the server starts the next time.
func (r *RabbitMQ) Configure(lines string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more = lines
}

// Kill crashes the server with SIGKILL. After Restart, the confirmed messages are there if their queue is there: see SyncQueues.
func (r *RabbitMQ) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halt()
}

// Restart starts the server again on the same port and data. A server that still runs is killed first.
func (r *RabbitMQ) Restart(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("testenv: restart of a closed server")
	}
	if err := r.halt(); err != nil {
		return err
	}
	for {
		err := r.launch(ctx)
		if !rabbitPortTaken(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Control runs rabbitmqctl, and returns its output without headings.
func (r *RabbitMQ) Control(ctx context.Context, args ...string) (string, error) {
	runtime.LockOSThread() // as in startProcess
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, rabbitControl, append([]string{"-q"}, args...)...)
	cmd.Dir = r.dataDir()
	cmd.Env = append(r.env(), "RABBITMQ_CTL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
	if err := restrict(cmd, r.who, syscall.SIGKILL); err != nil {
		return "", err
	}
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("testenv: rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

// countMessages asks the queue itself, because the numbers of rabbitmqctl list_queues for a quorum queue are seconds old.
const countMessages = `{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
	case amqqueue:get_type(Q) of
		rabbit_quorum_queue -> {ok, {_, N}, _} = ra:local_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N;
		_ -> [{messages, N}] = rabbit_amqqueue:info(Q, [messages]), N
	end.`

// Messages returns how many messages a queue has. It includes messages that a consumer has and has not acknowledged, which AMQP does not count.
func (r *RabbitMQ) Messages(ctx context.Context, queue string) (int, error) {
	text, err := r.Control(ctx, "eval", fmt.Sprintf(countMessages, queue))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(text))
}

// SyncQueues writes to the disk that the queues exist. RabbitMQ itself does this some seconds after it has confirmed the declaration of a
// queue. After a crash in between, a classic queue is gone, and a quorum queue is a new member without messages that elects no leader.
func (r *RabbitMQ) SyncQueues(ctx context.Context) error {
	_, err := r.Control(ctx, "eval", "ok = dets:sync(ra_directory_reverse), ok = dets:sync(ra_log_meta), ok = mnesia:sync_log().")
	return err
}

// Close ends the server and its epmd at once, and removes the directory. Close may be called twice.
func (r *RabbitMQ) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return errors.Join(r.halt(), r.stopEpmd(), r.dir.remove())
}

func (r *RabbitMQ) dataDir() string { return filepath.Join(r.dir.path, "data") }

// halt kills the server, and the helpers that it has started, which work in its directory.
func (r *RabbitMQ) halt() error {
	if r.server == nil {
		return nil
	}
	err := errors.Join(r.server.crash(), sweep(r.dataDir()))
	r.server = nil
	return err
}

// startEpmd starts the register of names that nodes need. Otherwise the node would start one that outlives it.
func (r *RabbitMQ) startEpmd() error {
	path, err := Binary("epmd")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "-port", strconv.Itoa(r.ports.epmd), "-address", loopback) //nolint:noctx // it outlives ctx
	cmd.Dir = "/"
	cmd.Env = cleanEnv()
	r.epmd, err = startProcess(cmd, r.who, syscall.SIGKILL, r.dir)
	if err != nil {
		return err
	}
	return poll(func() bool {
		conn, err := net.Dial("tcp", address(r.ports.epmd)) //nolint:noctx // on this machine
		if err != nil {
			return !r.epmd.running() // then the node reports what is wrong
		}
		return conn.Close() == nil
	})
}

func (r *RabbitMQ) stopEpmd() error {
	if r.epmd == nil {
		return nil
	}
	err := r.epmd.crash()
	r.epmd = nil
	return err
}

func (r *RabbitMQ) env() []string {
	file := func(name string) string { return filepath.Join(r.dir.path, name) }
	env := cleanEnv()
	for i, entry := range env {
		if strings.HasPrefix(entry, "RABBITMQ_") || strings.HasPrefix(entry, "ERL_") {
			env[i] = "ONCE_IGNORED="
		}
	}
	return append(env,
		"HOME="+r.dataDir(), // where the cookie is
		"ERL_EPMD_PORT="+strconv.Itoa(r.ports.epmd), "ERL_EPMD_ADDRESS="+loopback, "ERL_CRASH_DUMP=/dev/null",
		fmt.Sprintf("RABBITMQ_NODENAME=once%d@localhost", r.ports.client),
		"RABBITMQ_NODE_IP_ADDRESS="+loopback, "RABBITMQ_NODE_PORT="+strconv.Itoa(r.ports.client), "RABBITMQ_DIST_PORT="+strconv.Itoa(r.ports.node),
		"RABBITMQ_MNESIA_BASE="+r.dataDir(), "RABBITMQ_LOG_BASE="+r.dataDir(), "RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE="+filepath.Join(r.dataDir(), "rabbit.pid"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE="+file("rabbitmq.conf"), "RABBITMQ_ADVANCED_CONFIG_FILE="+file("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+file("enabled_plugins"),
		"RABBITMQ_ALLOW_INPUT=true", // makes the script become the server, instead of its parent
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
	)
}

func (r *RabbitMQ) launch(ctx context.Context) error {
	if !isExecutable(rabbitScript) {
		return fmt.Errorf("testenv: no %s: %w", rabbitScript, exec.ErrNotFound)
	}
	for name, text := range map[string]string{
		"rabbitmq.conf": "disk_free_limit.absolute = 1MB\nlog.console.level = info\n" + r.more, "enabled_plugins": "[].\n", "advanced.config": "[].\n",
	} {
		if err := os.WriteFile(filepath.Join(r.dir.path, name), []byte(text), 0o644); err != nil { //nolint:gosec // another user reads it
			return err
		}
	}
	log, file, err := openLog(r.LogPath())
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(rabbitScript) //nolint:noctx // it outlives ctx
	cmd.Dir = r.dataDir()
	cmd.Env = r.env()
	cmd.Stdout, cmd.Stderr = file, file
	server, err := startProcess(cmd, r.who, syscall.SIGKILL, r.dir)
	if err != nil {
		return err
	}
	attempt := start{server: server, port: r.ports.client, login: r.greets, log: log, bound: func() bool {
		return log.contains("Server startup complete")
	}}
	if err := attempt.await(ctx); err != nil {
		return errors.Join(err, server.crash(), sweep(r.dataDir()))
	}
	r.server = server
	return nil
}

// greets sends a header of another protocol. The server answers with the header of its own protocol.
func (r *RabbitMQ) greets(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", r.Addr())
	if err != nil {
		return errNotReady
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	answer := make([]byte, 8)
	if _, err := conn.Write([]byte("AMQP\x00\x00\x00\x00")); err != nil {
		return errNotReady
	}
	if _, err := conn.Read(answer); err != nil || string(answer[:4]) != "AMQP" {
		return errNotReady
	}
	return nil
}
