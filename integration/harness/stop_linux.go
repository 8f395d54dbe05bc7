package harness

import (
	"os"
	"runtime"
	"syscall"
)

// Stop stops this process (SIGSTOP), and returns when another one has sent SIGCONT. The signal goes to the thread that calls it: one
// that is sent to the process may be taken by another thread, and the caller would run on for a moment.
func Stop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP)); errno != 0 {
		return errno
	}
	return nil
}
