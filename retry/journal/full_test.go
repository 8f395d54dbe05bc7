package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestAFullJournal takes no intent more, holds no more memory and no more of the disk, and has
// room again when one is closed.
func TestAFullJournal(t *testing.T) {
	const body = 100 << 10
	for name, cfg := range map[string]Config{
		"number": {MaxOpen: 10},
		"bytes":  {MaxBytes: 10*(body+2*entrySize) + body/2},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			f, err := Open(path, cfg)
			if err != nil {
				t.Fatal(err)
			}
			begin := func(key string) (Intent, error) {
				in := intentOf(key)
				in.Body = bytes.Repeat([]byte("x"), body)
				return f.Begin(t.Context(), in)
			}
			var taken []Intent
			for i := range 300 {
				in, err := begin(fmt.Sprint(i))
				switch {
				case err == nil:
					taken = append(taken, in)
				case !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "Try: "):
					t.Fatal(err)
				}
			}
			if len(taken) != 10 || len(f.table.byID) != 10 || len(f.table.byName) != 10 || f.table.bytes > 10*(body+2*entrySize) || len(f.next.payloads) != 0 {
				t.Errorf("%d taken, %d in memory, %d bytes, %d to be written", len(taken), len(f.table.byID), f.table.bytes, len(f.next.payloads))
			}
			if info, err := os.Stat(path); err != nil || info.Size() > 11*(body+2*entrySize) {
				t.Errorf("%v, %v", info.Size(), err)
			}
			if in, err := begin("3"); err != nil || !in.Again {
				t.Errorf("what is open already: %v", err)
			} else if err := f.End(t.Context(), in, ProofNone); err != nil {
				t.Error(err)
			}
			if err := f.End(t.Context(), taken[0], ProofAnswered); err != nil {
				t.Fatal(err)
			}
			if _, err := begin("one more"); err != nil {
				t.Errorf("when there is room again: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f, err = Open(path, Config{MaxOpen: 5}) // what was taken is kept
			if err != nil || len(f.table.byID) != 10 {
				t.Fatalf("%d of 10, %v", len(f.table.byID), err)
			}
			if _, err := begin("another"); !errors.Is(err, ErrFull) {
				t.Errorf("beyond a smaller limit: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
