package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

const diskEnv = "ONCE_FULL_DISK"

// TestFullDisk archives onto a disk that is really full, or nearly: a small one, in
// memory, mounted where only this test sees it. It runs its own binary in a mount
// namespace, so that the mount goes away with it however it ends.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(diskEnv); dir != "" {
		for room := range 4 {
			disk := filepath.Join(dir, fmt.Sprint(room))
			if err := errors.Join(os.Mkdir(disk, 0o700), syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k")); err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprint(room), func(t *testing.T) { fullDisk(t, disk, room) })
		}
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), diskEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), strings.Contains(string(out), "operation not permitted"):
		const missing = "a full disk needs the right to mount a tmpfs in a namespace of its own.\n" +
			"Try: run as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	case err != nil, strings.Count(string(out), "--- PASS: TestFullDisk/") != 4:
		t.Errorf("%v\n%s", err, out)
	}
}

// fullDisk leaves some pages of room, sweeps until nothing goes any more, makes room,
// and sweeps the rest.
func fullDisk(t *testing.T, disk string, room int) {
	t.Helper()
	dir := filepath.Join(disk, "archive")
	w := mustOpen(t, dir)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast, int64(room)*4096)
	s := memstore.New()
	e := once.New(s, once.Config{Retain: time.Hour})
	want := map[string]bool{}
	for i := range 40 {
		op := once.Operation{Scope: "s", Key: fmt.Sprint(i)}
		random := once.NewKey() + once.NewKey()
		_, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (string, error) { return strings.Repeat(random, 10), nil })
		if err != nil {
			t.Fatal(err)
		}
		want[op.Key] = true
	}
	s.Advance(2 * time.Hour)
	sweeper, err := retention.New(s, retention.Config{Batch: 10, Rate: 1 << 30, Keep: w.Keep})
	if err != nil {
		t.Fatal(err)
	}
	first, err := sweeper.Sweep(t.Context())
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("vacuous: the disk is not full: %d rows swept, %v", first, err)
	}
	if again, err := sweeper.Sweep(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is still full: %d rows swept, %v", again, err)
	}
	if err := errors.Join(fewer(s, want), os.Remove(ballast)); err != nil {
		t.Fatal(err)
	}
	rest, err := sweeper.Sweep(t.Context())
	t.Logf("%d rows, then with room again %d", first, rest)
	if err != nil || first+rest > 40 {
		t.Error(err)
	}
	missing(t, dir, s, want)
	if left, err := s.Sweep(t.Context(), store.Sweep{Limit: 100}); err != nil || left.Rows != 0 {
		t.Errorf("left in the store: %+v, %v", left, err)
	}
	all(t, dir)
}

// fewer drops nothing: what is in the store while the disk is full was not deleted.
func fewer(s *memstore.Store, want map[string]bool) error {
	found := 0
	_, err := s.Sweep(context.Background(), store.Sweep{Limit: 100, Keep: func(_ context.Context, rows []store.Expired) error {
		for _, e := range rows {
			if want[e.Key] {
				found++
			}
		}
		return errDisk
	}})
	if !errors.Is(err, errDisk) || found == 0 {
		return fmt.Errorf("vacuous: nothing is left in the store: %w", err)
	}
	return nil
}

// fill writes a file until there are so many bytes of room.
func fill(t *testing.T, path string, room int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size() - room)
	}
	if err != nil {
		t.Fatal(err)
	}
}
