package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestDemoEnds: whether it is interrupted or killed, no service stays behind.
func TestDemoEnds(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 130, syscall.SIGKILL: -1} {
		cmd := program(t, "demo", "--ops", "100000", "--db", sqliteURL(t))
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var service int
		for lines := bufio.NewScanner(stderr); lines.Scan() && service == 0; {
			service = childOf(cmd.Process.Pid)
		}
		if service == 0 {
			t.Fatal("the demo has no child")
		}
		go func() { _, _ = io.Copy(io.Discard, stderr) }()
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exit code %d, want %d", signal, got, code)
		}
		for deadline := time.Now().Add(time.Minute); alive(service); <-time.After(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: the service still runs", signal)
			}
		}
	}
}

// stat returns the state and the parent of a process, "" if there is none.
func stat(pid int) (state string, parent int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // a name may have spaces
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

func alive(pid int) bool {
	state, _ := stat(pid)
	return state != "" && state != "Z"
}

// childOf returns a child of a process, 0 if it has none.
func childOf(pid int) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		if _, parent := stat(child); parent == pid {
			return child
		}
	}
	return 0
}
