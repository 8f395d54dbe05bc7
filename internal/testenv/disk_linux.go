package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// runIsolated runs cmd in a separate mount namespace, as the same user, and with the right to mount. There root can also let
// servers run as who.
func runIsolated(cmd *exec.Cmd, who identity) error {
	const capSysAdmin = 21
	ids := func(own int, other uint32) []syscall.SysProcIDMap {
		m := []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}
		if who != (identity{}) {
			m = append(m, syscall.SysProcIDMap{ContainerID: int(other), HostID: int(other), Size: 1})
		}
		return m
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   syscall.SIGKILL,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: ids(os.Getuid(), who.uid),
		GidMappings: ids(os.Getgid(), who.gid),
		// Servers drop the groups of root.
		GidMappingsEnableSetgroups: who != (identity{}),
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.AmbientCaps = []uintptr{capSysAdmin}
	}
	runtime.LockOSThread() // as in startProcess
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// mountDisk mounts a disk at a directory, and makes it belong to who. It makes the directory if it does not exist.
func mountDisk(path string, size int64, who identity) (*Disk, error) {
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		err = syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	}
	if err == nil {
		err = who.own(path)
	}
	if err != nil {
		return nil, fmt.Errorf("testenv: "+errNoMount+": %w. Try: testenv.Isolated", err)
	}
	return &Disk{path}, nil
}

// unmount removes the disk, with everything on it.
func (d *Disk) unmount() error {
	if d == nil {
		return nil
	}
	return syscall.Unmount(d.Path, syscall.MNT_DETACH)
}

func (d *Disk) ballast() string { return filepath.Join(d.Path, "ballast") }

// Fill uses up all free space except for some pages of 4096 bytes. If the disk is filled already, call Free
// first.
func (d *Disk) Fill(pages int64) error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	free, err := d.free()
	for at := int64(0); err == nil && free > pages; free, err = d.free() {
		more := (free - pages) * pageSize
		err = syscall.Fallocate(int(f.Fd()), 0, at, more)
		switch {
		case err == nil:
			at += more
		case !errors.Is(err, syscall.ENOSPC): // another process was faster, so the free space is counted again
			return err
		}
	}
	return err
}

const pageSize = 4096

// free returns the number of free pages.
func (d *Disk) free() (int64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(d.Path, &s)
	return int64(s.Bavail) * s.Bsize / pageSize, err
}

// Free releases the space that Fill has used up.
func (d *Disk) Free() error { return os.Remove(d.ballast()) }
