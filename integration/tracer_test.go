package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// tracer is a strace that spoils system calls of another process.
type tracer struct {
	cmd    *exec.Cmd
	pid    int
	output *os.File
	end    func()
}

// attach returns when the process, or the thread, is under observation. The injection
// is one of strace's, for some system calls.
func attach(ctx context.Context, pid int, calls, injection string) (*tracer, error) {
	output, err := os.CreateTemp("", "once-strace-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(output.Name())
	cmd := exec.CommandContext(ctx, "strace", "--output=/dev/fd/3", "--trace="+calls,
		fmt.Sprintf("--inject=%s:%s", calls, injection), "--attach="+strconv.Itoa(pid))
	cmd.ExtraFiles = []*os.File{output}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, output.Close())
	}
	t := &tracer{cmd: cmd, pid: pid, output: output}
	t.end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt) // an error: it is gone, with its victim
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "attached") {
			return t, nil
		}
		err = errors.Join(err, errors.New(lines.Text()))
	}
	return nil, errors.Join(err, cmd.Wait(), output.Close())
}

// killed ends the observation and reports whether the process was killed. One that has got
// the signal may still be on its way out: its connections are closed before it counts as
// dead.
func (t *tracer) killed(ctx context.Context) (bool, error) {
	t.detach()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.pid))
		if err != nil {
			return true, nil //nolint:nilerr // no such process
		}
		// "PID (name) state parent group session tty foreground flags ..."
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		flags, err := strconv.ParseUint(fields[6], 10, 64)
		switch {
		case err != nil:
			return false, err
		case fields[0] == "Z", fields[0] == "X", flags&exiting != 0:
			return true, nil
		case fields[0] == "S": // waits for the next question
			return false, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
}

const exiting = 0x4 // PF_EXITING of the kernel's sched.h

// detach ends the observation and reports whether a call was spoilt.
func (t *tracer) detach() (spoilt bool) {
	t.end()
	defer t.output.Close()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", t.output.Fd()))
	return err == nil && strings.Contains(string(text), "(INJECTED)")
}
