package journal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func mustOpen(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "intents") }

func intentOf(key string) Intent {
	return Intent{
		Key: key, Method: "POST", URL: "https://ada:secret@api.example/refunds?x=1#top", Body: []byte("body of " + key),
		Header: http.Header{"Content-Type": {"text/plain"}, "Authorization": {"Bearer hidden"}, "Cookie": {"hidden"}, "X-Other": {"hidden"}},
	}
}

func mustBegin(t testing.TB, j Journal, key string) Intent {
	t.Helper()
	in, err := j.Begin(t.Context(), intentOf(key))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func keysOf(list []Intent) (keys []string) {
	for _, in := range list {
		keys = append(keys, in.Key)
	}
	return keys
}

func wantOpen(t testing.TB, path string, want ...string) {
	t.Helper()
	list, _, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(list); !slices.Equal(got, want) {
		t.Errorf("open: %v, want %v", got, want)
	}
}

// TestAnIntentOutlivesItsProcess: all that is needed to ask again is there, and nothing
// that is secret.
func TestAnIntentOutlivesItsProcess(t *testing.T) {
	path := newPath(t)
	f := mustOpen(t, path)
	before := time.Now().Add(-time.Millisecond)
	in := intentOf("k")
	in.Expires = time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if _, err := f.Begin(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	list, damage, err := Read(path) // while it is open, as after a kill
	if err != nil || len(list) != 1 || damage.Bytes != 0 {
		t.Fatal(list, damage, err)
	}
	got := list[0]
	if got.Key != "k" || got.Method != http.MethodPost || got.URL != "https://api.example/refunds?x=1" || string(got.Body) != "body of k" ||
		!got.Expires.Equal(in.Expires) || got.Since.Before(before) || got.Header.Get("Content-Type") != "text/plain" || len(got.Header) != 1 {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "hidden") || strings.Contains(string(text), "secret") {
		t.Errorf("a secret is in the file: %q, %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Open(path, Config{Headers: []string{"x-api-key"}}); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("a secret may be configured: %v", err)
	}
}

func TestOutcomesThatCloseAnIntent(t *testing.T) {
	path := newPath(t)
	f := mustOpen(t, path)
	for i, c := range []struct {
		ends []Proof // of calls that have it at the same time
		open bool
	}{
		{[]Proof{ProofAnswered}, false},
		{[]Proof{ProofUntouched}, false},
		{[]Proof{ProofNone}, true},
		{[]Proof{ProofExpired}, true},
		{[]Proof{ProofNone, ProofAnswered}, false},
		{[]Proof{ProofNone, ProofUntouched}, true},
		{[]Proof{ProofUntouched, ProofNone}, true},
		{[]Proof{ProofUntouched, ProofUntouched}, false},
		{[]Proof{ProofAnswered, ProofNone}, false},
	} {
		key := fmt.Sprint(i)
		var ins []Intent
		for n := range c.ends {
			in := mustBegin(t, f, key)
			if in.Again != (n > 0) {
				t.Errorf("%s: %+v", key, in)
			}
			ins = append(ins, in)
		}
		for n, o := range c.ends {
			if err := f.End(t.Context(), ins[n], o); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err := Read(path)
		if open := slices.Contains(keysOf(list), key); err != nil || open != c.open {
			t.Errorf("%v: open %v, %v", c.ends, open, err)
		}
	}
	_ = f.Close()
	f = mustOpen(t, path)
	again := mustBegin(t, f, "2")
	if err := f.End(t.Context(), again, ProofUntouched); err != nil || !again.Again {
		t.Fatal(again, err) // the process that was killed may have had an effect
	}
	wantOpen(t, path, "2", "3", "5", "6")
	list, err := f.List(t.Context())
	if err != nil || list[1].Held == "" || list[0].Held != "" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, in := range list {
		if err := f.Resolve(t.Context(), in.ID); err != nil {
			t.Error(err)
		}
	}
	wantOpen(t, path)
	if err := f.Resolve(t.Context(), list[0].ID); err == nil {
		t.Error("resolved twice")
	}
}

// TestNoIDTwice: the ID of an intent is not that of another one when the file was opened, or
// written, anew: a person who resolves what was listed before would close the other one.
func TestNoIDTwice(t *testing.T) {
	path, seen := newPath(t), map[string]string{}
	for i := range 4 {
		f, err := Open(path, Config{Compact: 1}) // it is written anew each time
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b", "c"} {
			key += fmt.Sprint(i)
			in := mustBegin(t, f, key)
			if other := seen[in.ID]; other != "" {
				t.Errorf("%s has the ID %s of %s", key, in.ID, other)
			}
			seen[in.ID] = key
			if err := f.End(t.Context(), in, ProofAnswered); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := mustOpen(t, path).Close(); err != nil { // as once journal list does
			t.Fatal(err)
		}
	}
	wantOpen(t, path)
}

func TestTheSameKeyForAnotherRequest(t *testing.T) {
	f := mustOpen(t, newPath(t))
	first := mustBegin(t, f, "k")
	other := intentOf("k")
	other.Body = []byte("another")
	if _, err := f.Begin(t.Context(), other); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	other.URL = "https://other.example/" // another server, another operation
	if in, err := f.Begin(t.Context(), other); err != nil || in.ID == first.ID {
		t.Error(in, err)
	}
	if err := f.End(t.Context(), first, ProofAnswered); err != nil {
		t.Error(err)
	}
	other.URL = intentOf("k").URL
	if in, err := f.Begin(t.Context(), other); err != nil || in.Again {
		t.Error(in, err)
	}
	if _, err := f.Begin(t.Context(), Intent{Key: "k", URL: ":"}); err == nil {
		t.Error("no URL")
	}
}

func TestTwoOwnersAreRefused(t *testing.T) {
	path := newPath(t)
	f := mustOpen(t, path)
	_, err := Open(path, Config{})
	if err == nil || !strings.Contains(err.Error(), "another process has") || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Begin(t.Context(), intentOf("late")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	mustOpen(t, path)
	if _, err := Open(filepath.Join(path, "no", "folder"), Config{}); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Error(err)
	}
}

// TestNoLock: where the system has no lock, a journal is not opened, and not written.
func TestNoLock(t *testing.T) {
	path := newPath(t)
	f, err := open(path, Config{}, lockless{})
	if f != nil || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

type lockless struct{ osDisk }

func (lockless) open(string) (file, error) { return nil, errors.ErrUnsupported }

// TestManyAtOnce: intents that come at the same time share their flushes, and the file
// stays small.
func TestManyAtOnce(t *testing.T) {
	path := newPath(t)
	d := &countingDisk{}
	f, err := open(path, Config{Compact: 20_000}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	const callers, each = 16, 50
	d.syncs = 0
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				in, err := f.Begin(context.Background(), intentOf(fmt.Sprintf("%d-%d", c, i)))
				if err == nil && i > 0 {
					err = f.End(context.Background(), in, ProofAnswered)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	list, _, err := Read(path)
	if err != nil || len(list) != callers {
		t.Errorf("%d open, %v", len(list), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 40_000 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	t.Logf("%d intents, %d flushes, %d files", callers*each, d.syncs, d.files)
	if d.syncs >= callers*each || d.files < 3 {
		t.Errorf("vacuous: %d flushes of %d intents, %d files", d.syncs, callers*each, d.files)
	}
}

type countingDisk struct {
	osDisk

	files, syncs int // under File.writing
}

func (d *countingDisk) create(path string) (file, error) {
	d.files++
	f, err := d.osDisk.create(path)
	return countingFile{f, d}, err
}

type countingFile struct {
	file

	d *countingDisk
}

func (f countingFile) Sync() error {
	f.d.syncs++
	runtime.Gosched() // others come meanwhile, also if the machine has one core and a flush takes no time
	return f.file.Sync()
}

func BenchmarkIntentInAJournal(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			f := mustOpen(b, newPath(b))
			next := make(chan int)
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for i := range next {
						in, err := f.Begin(context.Background(), intentOf(fmt.Sprint(i)))
						if err == nil {
							err = f.End(context.Background(), in, ProofAnswered)
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				next <- i
			}
			close(next)
			all.Wait()
		})
	}
}

// BenchmarkFlushOfTheDisk is what the disk costs by itself: 300 bytes and a flush.
func BenchmarkFlushOfTheDisk(b *testing.B) {
	out, err := os.Create(newPath(b))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	for range b.N {
		if _, err := out.Write(make([]byte, 300)); err != nil {
			b.Fatal(err)
		}
		if err := out.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}
