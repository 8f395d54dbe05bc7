package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// child is a process that carries out a plan.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // its end is the child's
	stderr bytes.Buffer
	cancel context.CancelFunc
}

// start starts a child, under a tracer if there is one. What it prints goes to out.
func (p plan) start(ctx context.Context, out io.Writer, tracer ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	args := slices.Concat(tracer, []string{self})
	c := &child{cmd: exec.CommandContext(ctx, args[0], args[1:]...), cancel: cancel}
	c.cmd.Env = p.environ()
	c.cmd.WaitDelay = time.Second // a tracer that was killed leaves its child the pipes
	c.cmd.Stdout, c.cmd.Stderr = out, &c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return c, nil
}

// wait waits for the end and says whether it was kill -9. Any other end but
// success is an error.
func (c *child) wait() (killed bool, err error) {
	defer c.cancel()
	err = c.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("child: %w: %s", err, strings.TrimSpace(c.stderr.String()))
	}
	return false, err
}

// end lets a child go that waits for the end of its input.
func (c *child) end() { _ = c.stdin.Close() }

// carryOut runs a child to its end.
func (p plan) carryOut(ctx context.Context, tracer ...string) (out string, killed bool, err error) {
	var stdout bytes.Buffer
	c, err := p.start(ctx, &stdout, tracer...)
	if err != nil {
		return "", false, err
	}
	killed, err = c.wait()
	if killed && ctx.Err() != nil {
		return "", false, ctx.Err()
	}
	return strings.TrimSpace(stdout.String()), killed, err
}
