//go:build linux

package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestDiskGetsFull(t *testing.T) {
	t.Parallel()
	if !Isolated(t) {
		return
	}
	d := NewDisk(t, 1<<20)
	for pages := range int64(3) {
		if err := d.Fill(pages); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(d.Path, "file"))
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for err == nil {
			_, err = f.Write(make([]byte, pageSize))
			n++
		}
		if n-1 != pages || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("wrote %d pages of %d, then %v", n-1, pages, err)
		}
		if err := errors.Join(f.Close(), os.Remove(f.Name()), d.Free()); err != nil {
			t.Error(err)
		}
	}
}

func TestServersOnADisk(t *testing.T) {
	t.Parallel()
	Need(t, "postgresql", "mariadb")
	if !Isolated(t) {
		return
	}
	const enough = 256 << 20
	p, err := StartPostgres(t.Context(), PostgresConfig{Disk: enough})
	if err != nil {
		t.Fatal(err)
	}
	m, err := StartMariaDB(t.Context(), MariaDBConfig{Disk: enough})
	if err != nil {
		t.Fatal(errors.Join(err, p.Close()))
	}
	for _, d := range []*Disk{p.Disk(), m.Disk()} {
		if free, err := d.free(); err != nil || free <= 0 || free >= enough/pageSize {
			t.Errorf("%d pages are free: the data is somewhere else (%v)", free, err)
		}
	}
	dirs := []string{filepath.Dir(p.DataDir()), filepath.Dir(m.DataDir())}
	if err := errors.Join(p.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
