package faultnet

import (
	"syscall"
	"time"
)

// nap sleeps in the kernel. The timers of the Go runtime are rounded up to whole
// milliseconds when a thread waits in epoll, which makes 1.08 ms of 0.5 ms. The
// kernel itself adds 50 µs of slack to a thread's timers unless told otherwise;
// the call is repeated because the goroutine may be on any thread.
//
// It may return early, when the runtime interrupts the thread with a signal.
func nap(d time.Duration) {
	const setTimerSlack, nanoseconds = 29, 1
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, nanoseconds, 0)
	duration := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&duration, nil)
}
