package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// check reads the files of the release as the machines of users will read them.
func (s *snapshot) check() error {
	list, err := os.ReadFile(filepath.Join(s.dir, sums))
	if err != nil {
		return err
	}
	for _, t := range s.targets {
		archive, err := os.ReadFile(filepath.Join(s.dir, t.archive()))
		if err != nil {
			return err
		}
		if !strings.Contains(string(list), fmt.Sprintf("%x  %s\n", sha256.Sum256(archive), t.archive())) {
			return fmt.Errorf("the file %s does not have the checksum that %s lists", sums, t.archive())
		}
		files, err := t.unpack(archive)
		if err == nil {
			err = t.complete(files)
		}
		if err == nil {
			err = t.runsThere(files[0].text)
		}
		if err == nil && t == host {
			err = s.runsHere(files[0].text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.archive(), err)
		}
	}
	return s.checkImage()
}

// complete returns an error unless an archive has the binary first, and then exactly the files of [snapshot.beside].
func (t target) complete(files []packed) error {
	want := map[string]bool{t.binary(): true, "LICENSE": true}
	for _, name := range shells {
		want["completions/"+name] = true
	}
	if len(files) == 0 || files[0].name != t.binary() {
		return errors.New("the binary is not the first file of the archive")
	}
	if t.system != "windows" && files[0].mode.Perm() != binaryMode {
		return fmt.Errorf("the binary has the file mode %o, so users cannot start it", files[0].mode.Perm())
	}
	if n := len(files[0].text); n > mostBytes {
		return fmt.Errorf("the binary has %.1f MB, and must have at most %.1f MB", megabytes(n), megabytes(mostBytes))
	}
	for _, f := range files {
		if !want[f.name] || len(f.text) == 0 {
			return fmt.Errorf("the file %q of the archive is empty, or does not belong to a release", f.name)
		}
		delete(want, f.name)
	}
	if len(want) > 0 {
		return fmt.Errorf("the archive has no files %v", want)
	}
	return nil
}

// runsThere returns an error unless the binary is for the target's system and processor. On Linux it must need no library.
func (t target) runsThere(binary []byte) error {
	r := bytes.NewReader(binary)
	is := false
	switch t.system {
	case "linux":
		f, err := elf.NewFile(r)
		if err != nil {
			return err
		}
		is = f.Machine == map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[t.processor]
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			return errors.New("the binary is not linked statically. Try: build with CGO_ENABLED=0")
		}
	case "darwin":
		f, err := macho.NewFile(r)
		if err != nil {
			return err
		}
		is = f.Cpu == map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[t.processor]
	case "windows":
		f, err := pe.NewFile(r)
		if err != nil {
			return err
		}
		is = f.Machine == map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}[t.processor]
	}
	if !is {
		return fmt.Errorf("the binary was built for another system or processor than %s", t)
	}
	return nil
}

// runsHere returns an error unless the binary starts and knows its version.
func (s *snapshot) runsHere(binary []byte) error {
	dir, err := os.MkdirTemp("", "snapshot")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	once := filepath.Join(dir, host.binary())
	if err := os.WriteFile(once, binary, binaryMode); err != nil {
		return err
	}
	says, err := exec.CommandContext(s.ctx, once, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(says), "once ") {
		return fmt.Errorf("once version: %w: %s", errors.Join(err, errors.New("the binary does not start")), says)
	}
	if strings.Contains(string(says), "(devel)") {
		return fmt.Errorf("the command once version does not print a version: %s. Try: build in a clone, because go build finds no revision in a linked worktree (git worktree)", says)
	}
	return nil
}

// checkImage returns an error unless the image has the same binary, runs without root, and has nothing else that could be started.
func (s *snapshot) checkImage() error {
	text, err := os.ReadFile(filepath.Join(s.tree, "deploy", "Dockerfile"))
	if err != nil {
		return err
	}
	_, last, _ := strings.Cut(string(text), "\nFROM gcr.io/distroless/static")
	for _, want := range []struct{ where, what string }{
		{string(text), `CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/once ` + program + " "},
		{last, ":nonroot\n"}, {last, `ENTRYPOINT ["/once"]`},
	} {
		if !strings.Contains(want.where, want.what) {
			return fmt.Errorf("deploy/Dockerfile does not contain the line %q", want.what)
		}
	}
	return nil
}
