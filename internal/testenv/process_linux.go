package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// restrict makes cmd run as who, in a session of its own so that Ctrl-C reaches
// only us, and die with the thread that starts it.
func restrict(cmd *exec.Cmd, who identity, death syscall.Signal) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: death}
	if who != (identity{}) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: who.uid, Gid: who.gid}
	}
	return nil
}

// crash kills the process and all its children with SIGKILL and waits until the
// last of them is gone: a PostgreSQL backend that survived its postmaster could
// still commit, and would keep the shared memory from a restart.
//
// The parent is stopped first. A stopped postmaster neither forks nor reaps, so
// the list of children is complete and no number in it can be reused.
func (p *process) crash() error {
	if !p.running() {
		return nil
	}
	pid := p.pid()
	children, err := freeze(pid)
	// Whatever went wrong above, what is known is killed.
	for _, victim := range append([]int{pid}, children...) {
		if killErr := syscall.Kill(victim, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("testenv: kill %d: %w", victim, killErr))
		}
	}
	<-p.done
	for _, child := range children {
		err = errors.Join(err, waitGone(child))
	}
	return err
}

// freeze stops a process and returns its children.
func freeze(pid int) ([]int, error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("testenv: stop %d: %w", pid, err)
	}
	if err := poll(time.Second, func() bool {
		state, _ := status(pid)
		return state == 'T' || state == 't' || state == 'Z' || state == 0
	}); err != nil {
		return nil, fmt.Errorf("testenv: %d does not stop: %w", pid, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, entry := range entries {
		candidate, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent := status(candidate); parent == pid {
			children = append(children, candidate)
		}
	}
	return children, nil
}

// sweep kills the processes that work in a directory, as every process of a
// PostgreSQL server does in its data directory. It finds the backends whose
// postmaster was killed by somebody else.
func sweep(dir string) error {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return err
	}
	for _, link := range links {
		// A process that is gone, or of another user, has no link to read.
		if target, err := os.Readlink(link); err != nil || target != dir {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("testenv: kill %d: %w", pid, err)
		}
		if err := waitGone(pid); err != nil {
			return err
		}
	}
	return nil
}

// status returns the state letter and the parent of a process, or zeroes when
// there is none. The name field in front of them may hold any byte, so the
// fields are counted from its closing bracket.
func status(pid int) (byte, int) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}

// waitGone waits for the end of a process that is not our child. A zombie counts
// as gone: it holds nothing any more, and in a container nobody may reap it.
func waitGone(pid int) error {
	if err := poll(10*time.Second, func() bool {
		state, _ := status(pid)
		return state == 0 || state == 'Z' || state == 'X'
	}); err != nil {
		return fmt.Errorf("testenv: process %d survived SIGKILL: %w", pid, err)
	}
	return nil
}

// poll is for what the kernel signals only to somebody else, such as the end of
// a process that is not our child.
func poll(patience time.Duration, done func() bool) error {
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("gave up after %v", patience)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
