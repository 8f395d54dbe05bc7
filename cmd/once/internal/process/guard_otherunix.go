//go:build unix && !linux

package process

import "syscall"

// attributes gives the command a process group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: processes that leave the group are not found here.
func adopt() {}

func endAdopted() {}
