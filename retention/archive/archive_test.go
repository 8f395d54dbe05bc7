package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

var moment = time.Date(2026, 8, 1, 12, 0, 0, 123456000, time.UTC)

// operations returns n operations, with everything in them that there can be.
func operations(n int) (list []upkeep.Expired) {
	for i := range n {
		list = append(list, upkeep.Expired{
			ID: store.ID{Scope: "acme POST /refunds", Key: fmt.Sprintf("ключ-%d \"<&>\u2028", i)},
			At: moment.Add(time.Duration(i) * time.Second),
			Record: store.Record{
				State: store.StateDone, Fence: int64(1 + i), Nonce: fmt.Appendf(nil, "%016d", i), Fingerprint: []byte{0, 1, 255},
				Request: []byte{0, 0xff}, RecoveryPoint: "paid", CallStarted: i%2 == 1, Data: []byte("\r\n"), Since: moment.Add(-72 * time.Hour),
				Result: store.Result{Kind: store.ResultKind(i % 3), Status: 201, Body: []byte{0xff, 0, '\n'}, Header: []store.Field{{Name: "A", Value: "\xff: b"}}},
			},
		})
	}
	return list
}

// all returns what an archive holds, which must be undamaged.
func all(t *testing.T, dir string) (list []upkeep.Expired) {
	t.Helper()
	if _, damaged, err := Verify(t.Context(), dir); err != nil || len(damaged) > 0 {
		t.Errorf("Verify: %+v, %v", damaged, err)
	}
	for e, err := range Records(dir) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func mustOpen(t *testing.T, dir string) *Writer {
	t.Helper()
	w, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func mustKeep(t *testing.T, w *Writer, rows []upkeep.Expired) {
	t.Helper()
	if err := w.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

// TestRoundTrip: what goes in comes out, every field and byte, also of another process.
func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	want := operations(10)
	w := mustOpen(t, dir)
	mustKeep(t, w, want[:7])
	mustKeep(t, w, nil)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	mustKeep(t, mustOpen(t, dir), want[7:])
	if got := all(t, dir); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	list, err := Segments(dir)
	if err != nil || len(list) != 2 || list[0].Rows != 7 || !list[0].First.Equal(want[0].At) || !list[0].Last.Equal(want[6].At) || list[1].Rows != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	bad := operations(1)
	bad[0].Key = "\xff"
	if err := mustOpen(t, t.TempDir()).Write(t.Context(), bad); err == nil {
		t.Error("a key that JSON would change was kept")
	}
}

// TestOneWriter: two would overwrite each other's manifest.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	w := mustOpen(t, dir)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	mustOpen(t, dir)
}

// TestVersion1IsStillRead reads what the first version has written. The files are never changed.
func TestVersion1IsStillRead(t *testing.T) {
	if got, want := all(t, "testdata/v1"), operations(3); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// receipts returns n rows of another table.
func receipts(n int) (list []upkeep.Expired) {
	for i := range n {
		key := fmt.Sprintf("op-%d", i)
		list = append(list, upkeep.Expired{ID: store.ID{Scope: "s", Key: key}, At: moment.Add(time.Duration(i) * time.Second), Table: "once_receipt", Row: json.RawMessage(`{"operation":"` + key + `","body":"AP8="}`)})
	}
	return list
}

// TestVersion2HasRowsOfOtherTables: rows of other tables come out as they went in, beside operations. Only a segment that has some is marked with the second version,
// also when it is listed after a crash: an earlier release reads the others.
func TestVersion2HasRowsOfOtherTables(t *testing.T) {
	if got, want := all(t, "testdata/v2"), append(operations(2), receipts(2)...); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	dir := t.TempDir()
	w := mustOpen(t, dir)
	mustKeep(t, w, operations(2))
	mustKeep(t, w, append(operations(1), receipts(1)...))
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	versions := func() (list []int) {
		segments, err := Segments(dir)
		if err != nil {
			t.Error(err)
		}
		for _, s := range segments {
			list = append(list, s.Version)
		}
		return list
	}
	if got := versions(); !reflect.DeepEqual(got, []int{1, 2}) {
		t.Errorf("the segments are of versions %v", got)
	}
	if err := os.Truncate(filepath.Join(dir, manifestName), 0); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
	if got := versions(); !reflect.DeepEqual(got, []int{1, 2}) && !reflect.DeepEqual(got, []int{2, 1}) {
		t.Errorf("after a crash the segments are of versions %v", got)
	}
	if got := all(t, dir); len(got) != 4 {
		t.Errorf("%d rows, want 4: %+v", len(got), got)
	}
	bad := receipts(1)
	bad[0].Row = json.RawMessage("{\"a\":\"\xff\"}")
	if err := mustOpen(t, t.TempDir()).Write(t.Context(), bad); err == nil {
		t.Error("a row that JSON would change was kept")
	}
}

// TestVerifySeesEachDamage: whatever happens to a file is seen.
func TestVerifySeesEachDamage(t *testing.T) {
	for name, harm := range map[string]func(segment, manifest string) error{
		"a bit":         func(s, _ string) error { return edit(s, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) },
		"its end":       func(s, _ string) error { return edit(s, func(b []byte) []byte { return b[:len(b)-1] }) },
		"more":          func(s, _ string) error { return edit(s, func(b []byte) []byte { return append(b, 0) }) },
		"nothing":       func(s, _ string) error { return edit(s, func([]byte) []byte { return nil }) },
		"the file":      func(s, _ string) error { return os.Remove(s) },
		"its line":      func(_, m string) error { return edit(m, func([]byte) []byte { return nil }) },
		"half its line": func(_, m string) error { return edit(m, func(b []byte) []byte { return b[:len(b)/2] }) },
		"rows":          func(_, m string) error { return replace(m, `"rows":5`, `"rows":6`) },
		"a sum":         func(_, m string) error { return replace(m, `"sha256":"`, `"sha256":"0`) },
		"a moment":      func(_, m string) error { return replace(m, `"first":"2026`, `"first":"2025`) },
		"another name":  func(_, m string) error { return replace(m, `"file":"2026`, `"file":"2025`) },
		"the manifest":  func(_, m string) error { return os.Remove(m) },
		"a newer one":   func(_, m string) error { return replace(m, `"v":1`, `"v":3`) },
		"a first line":  func(_, m string) error { return edit(m, func(b []byte) []byte { return append([]byte("{}\n"), b...) }) },
		"a path":        func(_, m string) error { return replace(m, `"file":"`, `"file":"../`) },
	} {
		dir := t.TempDir()
		mustKeep(t, mustOpen(t, dir), operations(5))
		list, err := Segments(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := harm(filepath.Join(dir, list[0].File), filepath.Join(dir, manifestName)); err != nil {
			t.Fatal(err)
		}
		if _, damaged, err := Verify(t.Context(), dir); err == nil && len(damaged) == 0 {
			t.Errorf("harm to %s was not seen", name)
		}
	}
}

func edit(path string, how func([]byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, how(b), 0o600)
}

func replace(path, from, to string) error {
	return edit(path, func(b []byte) []byte {
		if !bytes.Contains(b, []byte(from)) {
			panic("vacuous: nothing to replace: " + from)
		}
		return bytes.Replace(b, []byte(from), []byte(to), 1)
	})
}

// TestMendAfterACrash: what a crash has left behind is finished, and nothing that was kept is lost.
func TestMendAfterACrash(t *testing.T) {
	dir := t.TempDir()
	want := operations(5)
	w := mustOpen(t, dir)
	mustKeep(t, w, want[:2])
	mustKeep(t, w, want[2:])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, manifestName)
	err := errors.Join(
		edit(manifest, func(b []byte) []byte { return b[:len(b)-10] }),
		os.WriteFile(filepath.Join(dir, "20260801T120000Z-0.jsonl.gz.tmp"), []byte("half"), 0o600),
		os.WriteFile(manifest+temporary, []byte("half"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
	if got := all(t, dir); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.jsonl.gz"), []byte("no segment"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := errors.Join(os.CopyFS(other, os.DirFS(dir))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("a file that is no segment was listed: %v", err)
	}
}

func FuzzDamagedRecordIsFound(f *testing.F) {
	for _, e := range operations(3) {
		var b bytes.Buffer
		if err := encode(&b, e); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := decode(json.NewDecoder(bytes.NewReader(line)))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := encode(&b, e); err != nil {
			return // a moment that JSON has no form for
		}
		again, err := decode(json.NewDecoder(&b))
		if err != nil || !again.At.Equal(e.At) || again.ID != e.ID || !bytes.Equal(again.Result.Body, e.Result.Body) || !bytes.Equal(again.Nonce, e.Nonce) {
			t.Errorf("%+v, then %+v, %v", e, again, err)
		}
	})
}

func FuzzDamagedManifestIsFound(f *testing.F) {
	text, err := os.ReadFile("testdata/v1/" + manifestName)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Fuzz(func(t *testing.T, text []byte) {
		list, good, err := parse(text)
		if err != nil {
			return
		}
		again, end, err := parse(text[:good])
		if err != nil || end != good || !reflect.DeepEqual(again, list) {
			t.Errorf("%d of %d bytes are good, and of those %d; %v", good, len(text), end, err)
		}
	})
}

func ExampleWriter() {
	dir, err := os.MkdirTemp("", "archive")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := Open(dir)
	if err != nil {
		panic(err)
	}
	defer func() { _ = files.Close() }()

	s := memstore.New() // in a service: engine.Store()
	engine := once.New(s, once.Config{})
	op := once.Operation{Scope: "acme mail", Key: "welcome:42"}
	_, _ = once.Do(context.Background(), engine, op, func(context.Context, *memstore.Tx) (string, error) { return "queued", nil })
	s.Advance(100 * time.Hour)

	sweeper := retention.New(s, retention.Config{Archive: files.Write})
	fmt.Println(sweeper.Sweep(context.Background()))
	for e, err := range Records(dir) {
		fmt.Println(e.Scope, e.Key, string(e.Result.Body), err)
	}
	// Output:
	// 1 <nil>
	// acme mail welcome:42 "queued" <nil>
}
