package journal

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// history returns a file in which four intents were begun, one of them ended, and the
// offsets at which its records begin.
func history(t testing.TB) (text []byte, records []int64) {
	t.Helper()
	path := newPath(t)
	f := mustOpen(t, path)
	var first Intent
	for i := range 4 {
		records = append(records, f.size)
		in := mustBegin(t, f, fmt.Sprint(i))
		if i == 0 {
			first = in
		}
	}
	records = append(records, f.size)
	if err := f.End(t.Context(), first, ProofAnswered); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text, records
}

// ends returns where the records of a file end, and where its frames do.
func ends(t testing.TB, text []byte) (records, frames []int64) {
	t.Helper()
	s := salt(text[16:])
	for at := int64(headerSize); at < int64(len(text)); {
		payload, _, next, ok := s.frameAt(text, at)
		if !ok {
			t.Fatalf("no frame at %d", at)
		}
		frames, at = append(frames, next), next
		if len(payload) > 0 {
			records = append(records, next)
		}
	}
	return records, frames
}

// upTo returns how many of some offsets are no more than n, and the last of them.
func upTo(n int, offsets []int64) (count int, last int64) {
	for count < len(offsets) && offsets[count] <= int64(n) {
		last = offsets[count]
		count++
	}
	return count, last
}

// TestTornAtEveryByte: of a file that ends too early, the records that are whole count.
func TestTornAtEveryByte(t *testing.T) {
	text, _ := history(t)
	records, frames := ends(t, text)
	if len(records) != 5 || len(frames) != 9 {
		t.Fatalf("vacuous: %d records in %d frames", len(records), len(frames))
	}
	for n := headerSize; n < len(text); n++ {
		whole, _ := upTo(n, records)
		_, last := upTo(n, frames)
		last = max(last, headerSize)
		table, damage, err := readTable(text[:n])
		if err != nil {
			t.Fatalf("torn after %d of %d bytes: %v", n, len(text), err)
		}
		want := []string{"0", "1", "2", "3"}[:min(whole, 4)]
		if got := keysOf(table.intents()); !slices.Equal(got, want) {
			t.Errorf("torn after %d bytes: %v, want %v", n, got, want)
		}
		if damage.Bytes != int64(n)-last || damage.Bytes != 0 && damage.Offset != last {
			t.Errorf("torn after %d bytes: %+v", n, damage)
		}
	}
}

// TestDamageAtEveryByte: a changed byte is refused if it had been flushed, tolerated and
// told if it may have been torn, and never believed. The last batch that was flushed is no
// exception, whether a record or nothing but its flush frame follows, and a damaged flush frame loses
// nothing.
func TestDamageAtEveryByte(t *testing.T) {
	whole, _ := history(t)
	records, frames := ends(t, whole)
	for _, text := range [][]byte{whole, whole[:frames[7]]} { // with the end of "0", and as it was before that
		refused, tolerated := 0, 0
		for at := range text {
			damaged := slices.Clone(text)
			damaged[at] ^= 0x20
			table, damage, err := readTable(damaged)
			switch {
			case err != nil:
				refused++
				if !strings.Contains(err.Error(), "Try: ") {
					t.Errorf("byte %d: %v", at, err)
				}
			case int64(at) < records[3]: // all of the intents
				t.Fatalf("byte %d of %d: damage in what had been flushed is not seen", at, len(text))
			case damage.Bytes == 0:
				t.Fatalf("byte %d: damage is not told", at)
			default:
				tolerated++
				want := []string{"0", "1", "2", "3"}
				if len(text) == len(whole) && int64(at) < frames[7] { // the flush frame, and what follows is whole
					want = want[1:]
				}
				if got := keysOf(table.intents()); !slices.Equal(got, want) {
					t.Errorf("byte %d: %v, want %v", at, got, want)
				}
			}
		}
		if refused == 0 || tolerated == 0 {
			t.Errorf("vacuous: %d refused, %d tolerated", refused, tolerated)
		}
	}
}

// TestTheLastBatchIsMarked: when Begin has returned, the file says that it was flushed, also
// if the process is killed then; and a batch that was torn is not refused.
func TestTheLastBatchIsMarked(t *testing.T) {
	path := newPath(t)
	f := mustOpen(t, path)
	mustBegin(t, f, "a")
	mustBegin(t, f, "sent")
	killed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, _ := ends(t, killed)
	rotten := slices.Clone(killed)
	rotten[records[1]-3] ^= 1 // in the body
	if err := os.WriteFile(path+"2", rotten, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path+"2", Config{}); err == nil || !strings.Contains(err.Error(), "already on the disk") || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("a lost intent is not seen: %v", err)
	}
	torn := slices.Clone(killed[:records[1]]) // no caller was told, and nothing was sent
	torn[records[1]-3] ^= 1
	table, damage, err := readTable(torn)
	if got := keysOf(table.intents()); err != nil || !slices.Equal(got, []string{"a"}) || damage.Bytes == 0 {
		t.Errorf("torn: %v, %+v, %v", got, damage, err)
	}
}

// TestFilesWithoutMarks: as they were written before there were any.
func TestFilesWithoutMarks(t *testing.T) {
	text, _ := history(t)
	_, frames := ends(t, text)
	s := salt(text[16:])
	old := s.header(headerSize)
	flushed, at := int64(headerSize), int64(headerSize)
	for _, end := range frames {
		payload, _, _, _ := s.frameAt(text, at)
		if at = end; len(payload) > 0 {
			old = s.frame(old, int64(len(old)), flushed, payload)
			flushed = int64(len(old))
		}
	}
	table, damage, err := readTable(old)
	if got := keysOf(table.intents()); err != nil || damage.Bytes != 0 || !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("%v, %+v, %v", got, damage, err)
	}
}

// TestOutOfOrder: a crash of the machine can leave a later record and not an earlier one
// if neither was flushed. What is whole is kept.
func TestOutOfOrder(t *testing.T) {
	path := newPath(t)
	f := mustOpen(t, path)
	a, b := mustBegin(t, f, "a"), mustBegin(t, f, "b")
	from := f.size
	if err := f.End(t.Context(), a, ProofAnswered); err != nil { // not flushed
		t.Fatal(err)
	}
	to := f.size
	if err := f.End(t.Context(), b, ProofAnswered); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(text[from:to])
	table, damage, err := readTable(text)
	if got := keysOf(table.intents()); err != nil || !slices.Equal(got, []string{"a"}) || damage.Offset != from || damage.Bytes != to-from {
		t.Errorf("%v, %+v, %v", got, damage, err)
	}
}

// TestABodyIsNoRecord: a body that holds a whole journal, in a record that is torn, does
// not become part of this one.
func TestABodyIsNoRecord(t *testing.T) {
	text, records := history(t)
	path := newPath(t)
	f := mustOpen(t, path)
	in := intentOf("k")
	in.Body = text[records[1]:]
	if _, err := f.Begin(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	mine, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table, damage, err := readTable(mine[:len(mine)-headSize-1])
	if err != nil || len(table.byID) != 0 || damage.Bytes == 0 {
		t.Errorf("%v, %+v, %v", table.intents(), damage, err)
	}
}

// TestRefusedFileIsNotOverwritten: what is no journal is not overwritten.
func TestRefusedFileIsNotOverwritten(t *testing.T) {
	for _, text := range []string{"precious", "once journal 2\n\x00 and more, which this version does not understand", magic} {
		path := newPath(t)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Config{}); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%q: %v", text, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%q became %q, %v", text, now, err)
		}
	}
	path := newPath(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
}

// FuzzFileIsReadOrRefused: whatever the bytes, a file is read or refused; what is read can be written
// and read again.
func FuzzFileIsReadOrRefused(f *testing.F) {
	text, records := history(f)
	f.Add(text)
	f.Add(text[:records[2]+5])
	f.Add([]byte(magic))
	f.Add(append(slices.Clone(text), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, damage, err := readTable(text)
		if err != nil {
			return
		}
		if damage.Bytes < 0 || damage.Bytes > int64(len(text)) {
			t.Errorf("%+v", damage)
		}
		for _, e := range table.entries() {
			payload, err := e.encode()
			if err != nil {
				t.Fatal(err)
			}
			if r, err := decode(payload); err != nil || r.name() != e.name() || !slices.Equal(r.body, e.body) {
				t.Errorf("%+v became %+v, %v", e.record, r, err)
			}
		}
	})
}

// FuzzRecordIsReadOrRefused: the same for the payload of a frame, which has passed its sum.
func FuzzRecordIsReadOrRefused(f *testing.F) {
	r := record{Kind: kindOpen, ID: 1, Key: "k", Method: "POST", URL: "http://h/", body: []byte("body")}
	payload, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		s := salt{1}
		text := s.frame(s.header(headerSize), headerSize, headerSize, payload)
		table, damage, err := readTable(text)
		if damage.Bytes != 0 || err == nil && len(table.byID) > 1 {
			t.Errorf("%+v, %v, %v", damage, table.intents(), err)
		}
	})
}
