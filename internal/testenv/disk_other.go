//go:build !linux

package testenv

import (
	"errors"
	"os/exec"
)

func runIsolated(*exec.Cmd, identity) error { return errors.ErrUnsupported }

func mountDisk(string, int64, identity) (*Disk, error) { return nil, errors.ErrUnsupported }

func (*Disk) unmount() error { return nil }

// Fill is not supported on this system.
func (*Disk) Fill(int64) error { return errors.ErrUnsupported }

// Free is not supported on this system.
func (*Disk) Free() error { return errors.ErrUnsupported }
