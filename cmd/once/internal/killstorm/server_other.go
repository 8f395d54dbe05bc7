//go:build !linux

package killstorm

import "os/exec"

// diesWithUs does nothing, because only Linux kills a process when its parent ends. If a storm is killed here, its service runs on.
func diesWithUs(*exec.Cmd) {}
