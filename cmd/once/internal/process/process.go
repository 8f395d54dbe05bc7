// Package process starts commands that end with the program that has started them, however it ends: a guard process runs between the two. The guard
// is this program again. It starts the command in a process group of its own, and kills the group when its standard input ends: the kernel also
// closes the standard input if the program was killed.
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

// Process is a running command, with all processes that it has started.
type Process struct {
	stdin io.Closer
	done  chan struct{}
	tail  *tail
}

// Start starts a command. The end of ctx ends it.
func Start(ctx context.Context, args []string) (*Process, error) {
	if !isGuarded {
		return nil, errors.New("on this system the test cannot end the processes of a command. Try: run the test on Linux or macOS")
	}
	p := &Process{done: make(chan struct{}), tail: new(tail)}
	cmd, stdin, err := command(ctx, args)
	if err != nil {
		return nil, err
	}
	p.stdin, cmd.Stdout, cmd.Stderr = stdin, p.tail, p.tail
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the command cannot be started: %w", err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the error is not needed: the process was killed, or the caller reads it from Ended
	}()
	return p, nil
}

// Kill kills the processes of the command, and returns when they have ended.
func (p *Process) Kill() {
	p.stdin.Close()
	<-p.done
}

// Ended returns a channel that is closed when the command has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Said returns the end of the output of the command.
func (p *Process) Said() string { return p.tail.String() }

// Output runs a command to its end, and returns its output.
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

// command returns the command of a guard that runs args. Closing the io.Closer ends both.
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
	cmd.Cancel = stdin.Close        // a killed guard could not kill the command
	cmd.WaitDelay = 5 * time.Second // processes that have left the group, and that the guard does not find, may keep the output open
	setAside(cmd)
	return cmd, stdin, nil
}

// tail keeps the end of the written text.
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
