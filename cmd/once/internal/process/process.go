// Package process starts commands that end with the one that has started them, whatever becomes of it: a guard stands between the two.
// The guard is this program again. It starts the command in a process group of its own, and ends the group when its standard input ends:
// the kernel closes that also where the program was killed.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a command that runs, with all processes that it has started.
type Process struct {
	stdin io.Closer
	done  chan struct{}
	tail  *tail
}

// Start starts a command. The end of ctx ends it.
func Start(ctx context.Context, args []string) (*Process, error) {
	if !isGuarded {
		return nil, errors.New("the processes that a command starts cannot be ended on this system. Try: Linux or macOS")
	}
	p := &Process{done: make(chan struct{}), tail: new(tail)}
	cmd, stdin, err := command(ctx, args)
	if err != nil {
		return nil, err
	}
	p.stdin, cmd.Stdout, cmd.Stderr = stdin, p.tail, p.tail
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the command is not started: %w", err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // it is killed, or Ended tells
	}()
	return p, nil
}

// Kill kills the processes of the command, and returns when they are gone.
func (p *Process) Kill() {
	p.stdin.Close()
	<-p.done
}

// Ended is closed when the command has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Said is the end of what the command has printed.
func (p *Process) Said() string { return p.tail.String() }

// Output runs a command to its end, and returns what it has printed.
func Output(ctx context.Context, args ...string) ([]byte, error) {
	if !isGuarded {
		return exec.CommandContext(ctx, args[0], args[1:]...).Output()
	}
	cmd, stdin, err := command(ctx, args)
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	return cmd.Output()
}

// guarding in the environment makes this program the guard.
const guarding = "ONCE_GUARD"

// command is the guard with a command.
func command(ctx context.Context, args []string) (*exec.Cmd, io.Closer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), guarding+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Cancel = stdin.Close        // a guard that is killed could end nothing
	cmd.WaitDelay = 5 * time.Second // for processes that hold the output and have left the group, where the guard does not find them
	setAside(cmd)
	return cmd, stdin, nil
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const mostOfTail = 2 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if over := len(t.text) - mostOfTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
