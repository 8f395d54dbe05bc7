package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// snapshot makes the downloads of users: an archive for each system, and the sums of the archives. An archive has the command, its completions and the license.
type snapshot struct {
	ctx     context.Context //nolint:containedctx // as in release
	tree    string
	program string // the package that is built
	dir     string // the folder of the result; its earlier contents are deleted
	time    time.Time
	targets []target
}

// target is a system that users have.
type target struct{ system, processor string }

var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// host is the system that this process runs on.
var host = target{runtime.GOOS, runtime.GOARCH}

const (
	sums       = "SHA256SUMS"
	program    = "./cmd/once/full/once" // the build that has everything
	mostBytes  = 65_000_000             // of a binary; cmd/once, which has no brokers, has 38 MB
	binaryMode = 0o755
	fileMode   = 0o644
)

// shells are the shells that once has completions for, with the names of the files.
var shells = map[string]string{"bash": "once.bash", "zsh": "_once", "fish": "once.fish", "powershell": "once.ps1"}

// newSnapshot returns a snapshot of the commit that is checked out.
func newSnapshot(ctx context.Context, dir string) (*snapshot, error) {
	top, err := git(ctx, ".", nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	s := &snapshot{ctx: ctx, tree: strings.TrimSpace(top), program: program, targets: targets}
	if s.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	committed, err := git(ctx, s.tree, nil, "log", "-1", "--format=%cI")
	if err != nil {
		return nil, err
	}
	s.time, err = time.Parse(time.RFC3339, strings.TrimSpace(committed))
	return s, err
}

// make makes all files of the snapshot, and then checks them as a user would.
func (s *snapshot) make(w io.Writer) error {
	if err := s.clear(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "snapshot")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	more, err := s.beside(work)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, t := range s.targets {
		binary := filepath.Join(work, t.String(), t.binary())
		if err := s.build(t, binary); err != nil {
			return err
		}
		text, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		archive, err := t.pack(append([]packed{{t.binary(), binaryMode, text}}, more...), s.time)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, t.archive()), archive, fileMode); err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(archive), t.archive())
		fmt.Fprintf(w, "%-26s %5.1f MB, %s in it %5.1f MB\n", t.archive(), megabytes(len(archive)), t.binary(), megabytes(len(text)))
	}
	if err := os.WriteFile(filepath.Join(s.dir, sums), []byte(lines.String()), fileMode); err != nil {
		return err
	}
	return s.check()
}

func megabytes(n int) float64 { return float64(n) / 1e6 }

// clear deletes the files of an earlier snapshot from the folder, and nothing else.
func (s *snapshot) clear() error {
	if err := os.MkdirAll(s.dir, binaryMode); err != nil {
		return err
	}
	there, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, f := range there {
		if f.Name() != sums && !slices.ContainsFunc(targets, func(t target) bool { return t.archive() == f.Name() }) {
			return fmt.Errorf("the folder %s contains %s, which is not part of a snapshot. Try: an empty folder", s.dir, f.Name())
		}
		if err := os.Remove(filepath.Join(s.dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// build compiles the program for a target. Without cgo, the binary needs no library of the system. It contains no paths of this machine. Its
// version is the tag that is checked out, or names the commit.
func (s *snapshot) build(t target, binary string) error {
	cmd := exec.CommandContext(s.ctx, "go", "build", "-buildvcs=true", "-trimpath", "-ldflags", "-s -w", "-o", binary, s.program)
	cmd.Dir = s.tree
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.system, "GOARCH="+t.processor)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w: %s", t, err, text)
	}
	return nil
}

// beside returns the files of an archive next to the binary: the license, and the completions that the command itself prints.
func (s *snapshot) beside(work string) (files []packed, err error) {
	license, err := os.ReadFile(filepath.Join(s.tree, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files = append(files, packed{"LICENSE", fileMode, license})
	once := filepath.Join(work, "here", host.binary())
	cmd := exec.CommandContext(s.ctx, "go", "build", "-o", once, s.program) // with the flags of the tests, so that the build is often in the cache
	cmd.Dir = s.tree
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w: %s", err, text)
	}
	for shell, name := range shells {
		text, err := exec.CommandContext(s.ctx, once, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion for %s: %w", shell, err)
		}
		files = append(files, packed{"completions/" + name, fileMode, text})
	}
	slices.SortFunc(files, func(a, b packed) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

func (t target) String() string { return t.system + "_" + t.processor }

func (t target) binary() string {
	if t.system == "windows" {
		return "once.exe"
	}
	return "once"
}

func (t target) archive() string {
	if t.system == "windows" {
		return "once_" + t.String() + ".zip"
	}
	return "once_" + t.String() + ".tar.gz"
}

// packed is a file in an archive.
type packed struct {
	name string
	mode os.FileMode
	text []byte
}

// pack makes an archive. Its files have the time of the commit, so one commit always gives the same sum.
func (t target) pack(files []packed, at time.Time) ([]byte, error) {
	var archive bytes.Buffer
	if t.system == "windows" {
		z := zip.NewWriter(&archive)
		for _, f := range files {
			h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()}
			h.SetMode(f.mode)
			w, err := z.CreateHeader(h)
			if err == nil {
				_, err = w.Write(f.text)
			}
			if err != nil {
				return nil, err
			}
		}
		err := z.Close()
		return archive.Bytes(), err
	}
	g := gzip.NewWriter(&archive)
	z := tar.NewWriter(g)
	for _, f := range files {
		err := z.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.text)), ModTime: at.UTC()})
		if err == nil {
			_, err = z.Write(f.text)
		}
		if err != nil {
			return nil, err
		}
	}
	err := errors.Join(z.Close(), g.Close())
	return archive.Bytes(), err
}

// unpack returns the files of an archive.
func (t target) unpack(archive []byte) (files []packed, err error) {
	if t.system == "windows" {
		z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			return nil, err
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(r)
			if err != nil {
				return nil, err
			}
			files = append(files, packed{f.Name, f.Mode(), text})
		}
		return files, nil
	}
	g, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	z := tar.NewReader(g)
	for {
		h, err := z.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(z)
		if err != nil {
			return nil, err
		}
		files = append(files, packed{h.Name, os.FileMode(h.Mode), text})
	}
}
