package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestSnapshotPassesItsChecks: an archive is made for the system that is least like this one, of the build that compiles soonest, and passes the checks of make release-check. That
// makes what users download, for all six systems, and so does the long form.
func TestSnapshotPassesItsChecks(t *testing.T) {
	testenv.Prove(t)
	s, err := newSnapshot(t.Context(), filepath.Join(t.TempDir(), "dist"))
	must(t, err)
	if os.Getenv("ONCE_TORTURE") != "long" {
		s.targets, s.program = []target{{"windows", "arm64"}}, "./cmd/once"
	}
	var said bytes.Buffer
	must(t, s.make(&said))
	if !strings.Contains(said.String(), "once_windows_arm64.zip") {
		t.Errorf("%s", said.String())
	}
	must(t, s.clear()) // as the next one does
}

// TestArchivesAreReproducible: what an archive has is read again, and one commit has one sum.
func TestArchivesAreReproducible(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	for _, target := range targets {
		files := []packed{{target.binary(), binaryMode, []byte("binary")}, {"LICENSE", fileMode, []byte("text")}}
		for _, name := range shells {
			files = append(files, packed{"completions/" + name, fileMode, []byte(name)})
		}
		archive, err := target.pack(files, at)
		must(t, err)
		again, err := target.pack(files, at)
		must(t, err)
		if !bytes.Equal(archive, again) {
			t.Errorf("%s differs", target)
		}
		got, err := target.unpack(archive)
		must(t, err)
		must(t, target.complete(got))
		if err := target.runsThere(got[0].text); err == nil {
			t.Errorf("%s: a text is a binary", target)
		}
		for name, spoilt := range map[string][]packed{
			"no binary": got[1:], "no completion": got[:len(got)-1], "too much": append([]packed{got[0], {"x", fileMode, []byte("x")}}, got[1:]...),
			"empty": append([]packed{{target.binary(), binaryMode, nil}}, got[1:]...), "nothing": nil,
			"too large": append([]packed{{target.binary(), binaryMode, make([]byte, mostBytes+1)}}, got[1:]...),
		} {
			if target.complete(spoilt) == nil {
				t.Errorf("%s, %s: not seen", target, name)
			}
		}
	}
}

// TestSnapshotChecks: a binary of another system, a sum that is wrong and a folder with other files are seen.
func TestSnapshotChecks(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	binary, err := os.ReadFile(self)
	must(t, err)
	for _, target := range targets {
		if err := target.runsThere(binary); err == nil && target != host {
			t.Errorf("a binary of %s is one of %s", host, target)
		}
	}
	for processor, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, other := range []string{"amd64", "arm64"} {
			if err := (target{"linux", other}).runsThere(static(t, machine)); (err == nil) != (other == processor) {
				t.Errorf("a binary of %s for %s: %v", processor, other, err)
			}
		}
	}
	s := &snapshot{ctx: t.Context(), tree: filepath.Join("..", ".."), dir: t.TempDir(), targets: []target{{"linux", "amd64"}}}
	must(t, s.checkImage())
	must(t, os.WriteFile(filepath.Join(s.dir, s.targets[0].archive()), nil, fileMode))
	must(t, os.WriteFile(filepath.Join(s.dir, sums), []byte("0  once_linux_amd64.tar.gz\n"), fileMode))
	if err := s.check(); err == nil || !strings.Contains(err.Error(), "does not have the checksum") {
		t.Errorf("a wrong sum: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(s.dir, "thesis.txt"), nil, fileMode))
	if err := s.clear(); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("a folder with other files: %v", err)
	}
}

// static is the beginning of a binary of Linux that needs no library.
func static(t *testing.T, machine elf.Machine) []byte {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var text bytes.Buffer
	must(t, binary.Write(&text, binary.LittleEndian, h))
	return text.Bytes()
}
