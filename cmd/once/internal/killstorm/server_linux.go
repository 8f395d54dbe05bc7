package killstorm

import (
	"os/exec"
	"syscall"
)

// diesWithUs has the kernel kill the process when we are gone, however we went. It
// is in a process group of its own: Ctrl-C is for us to act upon.
func diesWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
