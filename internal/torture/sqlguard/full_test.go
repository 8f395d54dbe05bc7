//go:build linux

package sqlguard

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelib/once/internal/sqlguard"
)

const diskEnv = "ONCE_FULL_DISK"

// TestFullDisk fills a disk that is really full: a small one, in memory, mounted
// where only this test sees it. It runs its own binary in a mount namespace, so
// that the mount goes away with it however it ends.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(diskEnv); dir != "" {
		for _, journal := range []string{"wal", "delete"} {
			for _, play := range []struct {
				name, options string
				test          func(*testing.T, *ground, string)
			}{
				{"statement", "&_pragma=cache_size(10)", fullInStatement},
				{"commit", "", fullInCommit},
			} {
				disk := filepath.Join(dir, journal+play.name)
				must(t, os.Mkdir(disk, 0o700))
				must(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"))
				t.Run(journal+" "+play.name, func(t *testing.T) { play.test(t, liteAt(t, disk, journal, play.options), disk) })
			}
		}
		return
	}
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
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

// fullInStatement drops the error of a statement that fills the disk.
func fullInStatement(t *testing.T, g *ground, _ string) {
	t.Helper()
	tx, txn := g.begin(t)
	bad, after := carryOn(t, g, tx, misuse{fail: execs("INSERT INTO effect " + manyRows + "SELECT x FROM c")})
	if code, _ := sqlguard.SQLiteCode(bad); code&0xff != sqliteFull {
		t.Errorf("the disk is not full: %v", bad)
	}
	var refused *sqlguard.RefusedError
	if !errors.As(after, &refused) || txn.Err() == nil {
		t.Errorf("the next statement: %v", after)
	}
	if err := tx.Commit(); !errors.As(err, &refused) {
		t.Errorf("Commit() = %v", err)
	}
	g.leaves(t, 0, 0)
}

// fullInCommit lets somebody else fill the disk, so that COMMIT has no room for
// what is still in memory.
func fullInCommit(t *testing.T, g *ground, disk string) {
	t.Helper()
	tx, _ := g.begin(t)
	insert(t, tx, "once_key")
	_, err := tx.ExecContext(t.Context(), "INSERT INTO effect "+manyRows+"SELECT x FROM c LIMIT 5000")
	must(t, err)
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	err = tx.Commit()
	must(t, os.Remove(ballast))
	failed(t, err, false)
	if code, _ := sqlguard.SQLiteCode(err); code&0xff != sqliteFull {
		t.Errorf("the disk is not full: %v", err)
	}
	g.leaves(t, 0, 0)
}

const sqliteFull = 13

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
