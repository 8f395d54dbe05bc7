package journal

import (
	"context"
	"os"
	"testing"
	"time"
)

// powerDisk remembers what of the file has been flushed: that is left when the power fails.
type powerDisk struct {
	osDisk

	path string
	left []byte
}

func (d *powerDisk) create(path string) (file, error) {
	out, err := d.osDisk.create(path)
	return powerFile{out, d, path}, err
}

type powerFile struct {
	file

	d    *powerDisk
	path string
}

func (f powerFile) Sync() error {
	if err := f.file.Sync(); err != nil {
		return err
	}
	path := f.path
	if _, err := os.Stat(path); err != nil { // it has its name already
		path = f.d.path
	}
	text, err := os.ReadFile(path)
	f.d.left = text
	return err
}

// openPower opens a journal. fail returns what is open after a power failure at this moment.
func openPower(t *testing.T) (f *File, fail func() map[string]Intent) {
	t.Helper()
	d := &powerDisk{path: newPath(t)}
	f, err := open(d.path, Config{}, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, func() map[string]Intent {
		path := newPath(t)
		if err := os.WriteFile(path, d.left, 0o600); err != nil {
			t.Fatal(err)
		}
		list, _, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		open := map[string]Intent{}
		for _, in := range list {
			open[in.Key] = in
		}
		return open
	}
}

// TestANoteOutlivesThePower: that a key expires sooner than it was thought, or is held, is on
// the disk when End returns. Otherwise Resume would send the key after its server has
// forgotten it.
func TestANoteOutlivesThePower(t *testing.T) {
	f, fail := openPower(t)
	in := intentOf("a")
	in.Expires = time.Now().Add(24 * time.Hour)
	a, err := f.Begin(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	b := mustBegin(t, f, "b")
	c := mustBegin(t, f, "c")
	sooner := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	a.Expires = sooner
	for in, o := range map[*Intent]Proof{&a: ProofNone, &b: ProofExpired, &c: ProofNone} {
		if err := f.End(context.Background(), *in, o); err != nil {
			t.Fatal(err)
		}
	}
	open := fail()
	if len(open) != 3 || !open["a"].Expires.Equal(sooner) || open["b"].Held == "" || open["c"].Held != "" {
		t.Errorf("after a power failure: a expires at %v, want %v; b is held because %q; %d are open", open["a"].Expires, sooner, open["b"].Held, len(open))
	}
}
