package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// attributes gives the command a process group, and makes the kernel kill it if the guard itself is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes the guard the parent of processes whose parent has ended, such as processes that have left the group.
func adopt() {
	const setChildSubreaper = 36
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) // a kernel without it still has groups
}

// endAdopted kills children until none is left: the children of each one become the guard's when it has ended.
func endAdopted() {
	for {
		found := children(os.Getpid())
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is a child that was not waited for: no other process has its number
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && err != syscall.EINTR {
			return
		}
	}
}

func children(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // cannot fail: the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the name of a process may contain blanks
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
