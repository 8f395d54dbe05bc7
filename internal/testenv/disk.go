package testenv

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// isolatedEnv names the environment variable that tells a process for which test it is isolated.
const isolatedEnv = "ONCE_ISOLATED_TEST"

// Isolated reports whether this process may mount a [Disk] that no other process sees. If not, Isolated runs the calling test
// once more, in a separate process that may. The verdict and the output of that process become those of the test:
//
//	if !testenv.Isolated(t) {
//		return
//	}
//
// The mounts disappear with the process, however it ends. If mounting is forbidden, the test is skipped, or fails if
// CI=true.
func Isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) == t.Name() {
		return true
	}
	who, err := serverIdentity()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.run=" + only(t.Name(), flag.Lookup("test.run").Value.String())}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprintf("-test.timeout=%v", max(time.Second, time.Until(deadline)-5*time.Second)))
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	// The race detector waits for a second at the exit, only for its own reports.
	race := strings.TrimSpace(os.Getenv("GORACE") + " atexit_sleep_ms=0")
	cmd.Env = append(os.Environ(), isolatedEnv+"="+t.Name(), "GORACE="+race)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = runIsolated(cmd, who)
	text := out.String()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, errors.ErrUnsupported), strings.Contains(text, errNoMount):
		const missing = "a small disk needs the right to mount one in a namespace of its own.\n" +
			"Try: run as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces"
		if inCI() {
			t.Fatal(missing)
		}
		t.Skip(missing)
	case err == nil && strings.Contains(text, "--- SKIP: "+t.Name()+" "):
		t.Skip(text)
	case err != nil, !strings.Contains(text, "--- PASS: "+t.Name()+" "):
		t.Errorf("%v\n%s", err, text)
	default:
		t.Log(text)
	}
	return false
}

const errNoMount = "a file system in memory cannot be mounted"

// only returns the pattern that names one test. It keeps the parts for subtests of the pattern asked.
func only(test, asked string) string {
	parts := strings.Split(test, "/")
	depth := len(parts)
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	if below := strings.Split(asked, "/"); len(below) > depth {
		parts = append(parts, below[depth:]...)
	}
	return strings.Join(parts, "/")
}

// Disk is a small file system in memory, which can be full.
type Disk struct {
	Path string
}

// NewDisk mounts a disk in a temporary directory of the test. Only an [Isolated] process can do
// that.
func NewDisk(tb testing.TB, size int64) *Disk {
	tb.Helper()
	d, err := mountDisk(tb.TempDir(), size, identity{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.unmount(); err != nil {
			tb.Error(err)
		}
	})
	return d
}
