package faultnet

import (
	"syscall"
	"time"
)

// nap sleeps in the kernel. The timers of the Go runtime are rounded up to whole milliseconds when a thread waits
// in epoll, so 0.5 ms take 1.08 ms. The kernel adds 50 µs of slack to the timers of a thread,
// unless the thread sets another slack. nap sets it in each call, because the goroutine may run on any thread.
//
// nap may return early, if the runtime interrupts the thread with a signal.
func nap(d time.Duration) {
	const setTimerSlack, nanoseconds = 29, 1
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, nanoseconds, 0)
	duration := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&duration, nil)
}
