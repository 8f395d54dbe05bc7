package archive

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncelib/once/store/upkeep"
)

// Segments returns the entries of the manifest of the archive in dir. The oldest entry is the first.
func Segments(dir string) ([]Segment, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	list, _, err := parse(text)
	return list, err
}

// Records returns the records of the archive in dir, segment by segment: operations, and rows of other tables. A
// record that is in the archive twice is returned twice; the package documentation says how to recognise a
// record that is returned twice. After an error in a segment, Records skips the rest of the segment.
func Records(dir string) iter.Seq2[upkeep.Expired, error] {
	return func(yield func(upkeep.Expired, error) bool) {
		list, err := Segments(dir)
		if err != nil {
			yield(upkeep.Expired{}, err)
			return
		}
		for _, s := range list {
			for e, err := range rows(filepath.Join(dir, s.File)) {
				if err != nil {
					err = fmt.Errorf("archive: %s: %w", s.File, err)
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// Damage describes a damaged segment; Err is the error that Verify found in the segment.
type Damage struct {
	Segment
	Err error
}

// Verify reads every segment of the archive in dir and compares the segment with the manifest. A segment
// that the manifest does not list counts as damaged. The result err is an error of the manifest or the
// error of ctx; errors of single segments are in damaged.
func Verify(ctx context.Context, dir string) (list []Segment, damaged []Damage, err error) {
	names, err := osFiles{}.names(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("archive: %w", err)
	}
	if list, err = Segments(dir); err != nil {
		return nil, nil, err
	}
	for _, want := range list {
		if err := ctx.Err(); err != nil {
			return list, damaged, err
		}
		got, err := inspect(filepath.Join(dir, want.File))
		switch {
		case err != nil:
		case got.Bytes != want.Bytes || got.SHA256 != want.SHA256:
			err = fmt.Errorf("the file has %d bytes and the checksum %s, but the manifest lists %d bytes and the checksum %s", got.Bytes, got.SHA256, want.Bytes, want.SHA256)
		case got.Rows != want.Rows || !got.First.Equal(want.First) || !got.Last.Equal(want.Last):
			err = fmt.Errorf("the file has %d rows that expired from %v to %v, but the manifest lists %d rows from %v to %v", got.Rows, got.First, got.Last, want.Rows, want.First, want.Last)
		}
		if err != nil {
			damaged = append(damaged, Damage{want, err})
		}
	}
	unlisted, err := notListed(dir, names)
	return list, append(damaged, unlisted...), err
}

// notListed returns the files that are segments and are still not in the
// manifest.
func notListed(dir string, names []string) (unlisted []Damage, err error) {
	// The manifest is read again, because a writer may have listed a file since names was read.
	list, err := Segments(dir)
	listed := map[string]bool{}
	for _, s := range list {
		listed[s.File] = true
	}
	for _, name := range names {
		if strings.HasSuffix(name, segmentEnd) && !listed[name] {
			unlisted = append(unlisted, Damage{Segment{File: name}, errors.New("the manifest does not list the file: the process that wrote the file was killed, or the line of the manifest is damaged. Try: run the command once sweep --archive with this directory: the sweep adds the file to the manifest")})
		}
	}
	return unlisted, err
}

// inspect reads a whole segment, and returns the entry that the manifest should have.
func inspect(path string) (s Segment, err error) {
	s.Version = 1
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	sum := sha256.New()
	s.Bytes, err = io.Copy(sum, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	for e, err := range rows(path) {
		if err != nil {
			return s, err
		}
		s.widen(e)
		s.Rows++
	}
	return s, nil
}

// rows returns the rows of one segment, until the first error.
func rows(path string) iter.Seq2[upkeep.Expired, error] {
	return func(yield func(upkeep.Expired, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(upkeep.Expired{}, err)
			return
		}
		defer f.Close()
		read(f, yield)
	}
}

func read(f io.Reader, yield func(upkeep.Expired, error) bool) {
	packed, err := gzip.NewReader(f)
	if err != nil {
		yield(upkeep.Expired{}, err)
		return
	}
	lines := json.NewDecoder(packed)
	for {
		e, err := decode(lines)
		if errors.Is(err, io.EOF) {
			return
		}
		if !yield(e, err) || err != nil {
			return
		}
	}
}
