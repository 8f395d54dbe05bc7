package killstorm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Server is a process of the service, which can be killed and started again at the same address.
type Server struct {
	// Command returns a command that serves at address when it is started.
	Command func(address string) *exec.Cmd

	// Ready reports whether the process at address works. Nil means that it is asked by GET /healthz.
	Ready func(ctx context.Context, address string) bool

	// Log gets the output of the processes. May be nil.
	Log io.Writer

	address string
	last    tail // the end of their output

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil while no process is running
	died chan struct{} // closed when cmd has ended
}

// Address returns the address at which the process serves, or "" before its first start.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

const startPatience = 2 * time.Minute

// start starts the process and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" {
		address, err := FreeAddress(ctx)
		if err != nil {
			return err
		}
		s.address = address
	}
	cmd := s.Command(s.address)
	out := io.Writer(&s.last)
	if s.Log != nil {
		out = io.MultiWriter(&s.last, s.Log)
	}
	cmd.Stdout, cmd.Stderr = out, out
	diesWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	died := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a kill always causes an error, so it tells nothing
		close(died)
	}()
	s.cmd, s.died = cmd, died
	return s.await(ctx)
}

func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.ready(ctx) {
			return nil
		}
		select {
		case <-s.died:
			return fmt.Errorf("the service ended by itself; the demo did not kill it. Output of the service: %s", &s.last)
		case <-ctx.Done():
			return fmt.Errorf("the service does not answer at %s: %w. Output of the service: %s", s.address, ctx.Err(), &s.last)
		case <-tick.C:
		}
	}
}

func (s *Server) ready(ctx context.Context) bool {
	if s.Ready != nil {
		return s.Ready(ctx, s.address)
	}
	a, err := (wire{address: s.address}).get(ctx, "/healthz")
	return err == nil && a.status == http.StatusOK
}

var errEnded = errors.New("the service ended by itself; the demo did not kill it")

// kill sends SIGKILL to the process, and waits until it has ended: then its locks and sockets are free.
func (s *Server) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	var err error
	select {
	case <-s.died:
		err = fmt.Errorf("%w. It wrote: %s", errEnded, &s.last)
	default:
		err = s.cmd.Process.Kill()
		<-s.died
	}
	s.cmd = nil
	return err
}

// restart waits until the process has ended by itself, and starts it again.
func (s *Server) restart(ctx context.Context) error {
	s.mu.Lock()
	died := s.died
	s.mu.Unlock()
	select {
	case <-died:
		return s.start(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// FreeAddress finds a port below the range that the system uses for client connections: while the service is down, none of these connections may take
// its port.
func FreeAddress(ctx context.Context) (string, error) {
	const first, last = 18_080, 32_000
	var err error
	for port := first + int(time.Now().UnixNano()/1000)%(last-first); port <= last; port++ {
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}

// tail keeps the end of the written text, for an error message.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-keep):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(bytes.TrimSpace(t.end)) == 0 {
		return "nothing"
	}
	return "\n" + strings.TrimSpace(string(t.end))
}
