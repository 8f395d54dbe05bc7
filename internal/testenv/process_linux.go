package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

// restrict makes cmd run as who, in a separate session, and die with the thread that starts it. Because of the session, Ctrl-C
// reaches only this process.
func restrict(cmd *exec.Cmd, who identity, death syscall.Signal) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: death}
	if who != (identity{}) {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: who.uid, Gid: who.gid}
	}
	return nil
}

// crash kills the process and all its children with SIGKILL, and waits until the last of them is gone. A PostgreSQL backend that
// survived its postmaster could still commit, and would keep the shared memory from a restart.
//
// The parent is stopped first. A stopped postmaster neither forks nor reaps. So the list of children is complete, and none of
// their process numbers can be reused.
func (p *process) crash() error {
	if !p.running() {
		return nil
	}
	pid := p.pid()
	children, err := freeze(pid)
	// Whatever has failed above, the processes that are known are killed.
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
	if err := poll(func() bool { // a process that waits for its disk stops afterwards
		now := status(pid)
		return now.state == 'T' || now.state == 't' || now.exiting || now == life{}
	}); err != nil {
		return nil, fmt.Errorf("testenv: %d does not stop: %w", pid, err)
	}
	return children(pid)
}

// sweep kills the processes whose working directory is dir. Every process of a PostgreSQL server works in its data directory, so
// sweep also finds the backends whose postmaster was killed by another process.
func sweep(dir string) error {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return err
	}
	for _, link := range links {
		// If the process is gone, or belongs to another user, its link cannot be read.
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

// life is what the kernel knows about a process. The zero value means that the process does not
// exist.
type life struct {
	state   byte // its letter in ps, such as 'Z' for a zombie
	parent  int
	exiting bool // the process is ending, or is a zombie already
}

// status looks a process up. The name before the fields may contain any byte, so the fields are counted from its closing
// bracket.
func status(pid int) life {
	const stateField, parentField, flagsField, exitingFlag = 0, 1, 6, 0x4
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return life{}
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flagsField {
		return life{}
	}
	parent, parentErr := strconv.Atoi(string(fields[parentField]))
	flags, flagsErr := strconv.ParseUint(string(fields[flagsField]), 10, 64)
	if parentErr != nil || flagsErr != nil {
		return life{}
	}
	return life{state: fields[stateField][0], parent: parent, exiting: flags&exitingFlag != 0}
}

// children returns the process numbers of a process's children.
func children(parent int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && status(pid).parent == parent {
			found = append(found, pid)
		}
	}
	return found, nil
}

// losesChild reports whether a child of the process is dying or has not been
// reaped yet.
func losesChild(pid int) bool {
	pids, err := children(pid)
	return err != nil || slices.ContainsFunc(pids, func(pid int) bool { return status(pid).exiting })
}

// waitGone waits for the end of a process that is not our child. A zombie counts as gone: it holds nothing any more, and in a
// container it may never be reaped.
func waitGone(pid int) error {
	if err := poll(func() bool {
		now := status(pid)
		return now == life{} || now.state == 'Z' || now.state == 'X'
	}); err != nil {
		return fmt.Errorf("testenv: process %d survived SIGKILL: %w", pid, err)
	}
	return nil
}

// poll waits for something that the kernel signals only to another process, such as the end of a process that is not
// our child. It gives up after a minute.
func poll(done func() bool) error {
	const patience = time.Minute
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("gave up after %v", patience)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // see above: there is no signal
	}
	return nil
}
