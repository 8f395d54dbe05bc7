package integration

import (
	"fmt"
	"slices"
)

// syscalls by which SQLite changes files and locks. Each is a mode of its own,
// because strace counts each by itself.
var syscalls = []string{"pwrite64", "write", "fsync", "fdatasync", "ftruncate", "unlink", "fcntl"}

// cold reports whether the points begin with the start of the process.
func (p *point) cold() bool { return p.flow == flowCold || p.traced() }

func (p *point) traced() bool {
	return slices.Contains(syscalls, p.mode) || slices.Contains([]string{"renameat", "openat", "unlinkat", "flock", "close"}, p.mode)
}

// tracer is the command under which the victim runs: strace kills it as it enters
// the system call for the N-th time.
func (p *point) tracer() []string {
	if !p.traced() {
		return nil
	}
	return []string{
		"strace", "--follow-forks", "--quiet=all", "--output=/dev/null", "--trace=" + p.mode,
		fmt.Sprintf("--inject=%s:signal=SIGKILL:when=%d", p.mode, p.at),
	}
}
