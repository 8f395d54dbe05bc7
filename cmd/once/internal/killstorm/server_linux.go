package killstorm

import (
	"os/exec"
	"syscall"
)

// diesWithUs makes the kernel kill the process when this program ends, even if it is killed. The process gets a process group of its own, so that
// it does not get the signal of Ctrl-C: this program decides when it ends.
func diesWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
