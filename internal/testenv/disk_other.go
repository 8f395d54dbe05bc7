//go:build !linux

package testenv

import (
	"errors"
	"os/exec"
)

func runIsolated(*exec.Cmd, identity) error { return errors.ErrUnsupported }

func mountDisk(string, int64, identity) (*Disk, error) { return nil, errors.ErrUnsupported }

func (*Disk) unmount() error { return nil }

// Fill takes what is free but for some pages of 4096 bytes.
func (*Disk) Fill(int64) error { return errors.ErrUnsupported }

// Free gives back what Fill has taken.
func (*Disk) Free() error { return errors.ErrUnsupported }
