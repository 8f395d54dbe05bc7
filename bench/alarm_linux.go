package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer of the kernel's, which the runtime waits for as it does for a
// connection, and so to the microsecond. Its own timers are right to the millisecond.
type alarm struct {
	*os.File

	fd int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timer"), fd}, nil
}

func (a *alarm) wait(d time.Duration) error {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(a.fd, 0, &once, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var expirations [8]byte
	_, err := a.Read(expirations[:])
	return err
}
