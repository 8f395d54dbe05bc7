// Package archive keeps operations whose retention is over in files, before a sweeper
// deletes them; and rows of other tables: delivered messages of an outbox, receipts, events and
// attempts of webhooks.
//
//	files, err := archive.Open("/var/lib/once/archive")
//	...
//	sweeper := retention.New(engine.Store(), retention.Config{Archive: files.Write})
//
// An archive is a directory of segments, gzipped lines of JSON, and a manifest that
// lists them with their sums. A segment is written under another name, flushed to the
// disk, renamed, and listed; only then may its rows be deleted. A process that is killed
// meanwhile loses nothing: rows that were not listed are still in the database, or they are listed when the
// archive is opened again.
//
// So a row can be in an archive twice. Rows with the same scope, key and claim are one
// operation; with the same scope and key but another claim they are two, the later one
// executed after the first had expired. Rows of another table are the same if all their values are.
//
// The files hold the contents of the database: stored answers as they are, captured requests
// encrypted if they were. One process at a time writes an archive; give each node a
// directory of its own. Other processes may read it meanwhile.
package archive

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/lockedfile"
	"github.com/oncelib/once/store/upkeep"
)

// Writer adds segments to an archive. Its methods can be called concurrently.
type Writer struct {
	mu       sync.Mutex
	dir      string
	fs       files
	manifest file
	good     int64 // bytes of the manifest that are whole
	broken   bool  // something was not finished
}

// Open opens the archive in dir, which it makes if it does not exist, and repairs it after
// a crash. It fails if another process writes this archive.
func Open(dir string) (*Writer, error) { return open(dir, osFiles{}) }

func open(dir string, fs files) (_ *Writer, err error) {
	if err := makeDir(fs, dir); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	w := &Writer{dir: dir, fs: fs}
	w.manifest, err = fs.open(w.path(manifestName))
	if errors.Is(err, lockedfile.ErrHeld) {
		return nil, fmt.Errorf("archive: %s is being written by another process: %w. Try: a directory of its own for each process", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if err := w.mend(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Writer) path(name string) string { return filepath.Join(w.dir, name) }

// Close allows another process to write. The archived rows are on the disk already.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.manifest.Close()
}

// Write writes rows into a segment of their own. When it returns nil they are on the
// disk. It is made for retention.Config and upkeep.Sweep.
func (w *Writer) Write(ctx context.Context, rows []upkeep.Expired) error {
	if err := ctx.Err(); err != nil || len(rows) == 0 {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		if err := w.mend(); err != nil {
			return err
		}
	}
	w.broken = true // until it is not
	s, err := w.write(rows)
	if err == nil {
		err = w.list(s)
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	w.broken = false
	return nil
}

// write makes a segment that is not listed yet.
func (w *Writer) write(rows []upkeep.Expired) (s Segment, err error) {
	s = Segment{
		Version: 1, File: newName(rows[0].At), Rows: len(rows),
		First: rows[0].At.UTC(), Last: rows[0].At.UTC(), Created: time.Now().UTC(),
	}
	f, err := w.fs.create(w.path(s.File + temporary))
	if err != nil {
		return s, err
	}
	sum := &summed{to: f, hash: sha256.New()}
	buffer := bufio.NewWriterSize(sum, 256<<10)
	packed := gzip.NewWriter(buffer)
	for _, row := range rows {
		s.widen(row)
		if err = encode(packed, row); err != nil {
			break
		}
	}
	for _, step := range []func() error{packed.Close, buffer.Flush, f.Sync} {
		if err == nil {
			err = step()
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	s.Bytes, s.SHA256 = sum.n, hex.EncodeToString(sum.hash.Sum(nil))
	if err := w.fs.rename(w.path(s.File+temporary), w.path(s.File)); err != nil {
		return s, err
	}
	return s, w.fs.syncDir(w.dir)
}

// newName is unique, and sorts by time.
func newName(at time.Time) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return at.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:]) + segmentEnd
}

const (
	segmentEnd = ".jsonl.gz"
	temporary  = ".tmp"
)

// summed hashes and counts the written bytes.
type summed struct {
	to   io.Writer
	hash hash.Hash
	n    int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.hash.Write(b[:n])
	s.n += int64(n)
	return n, err
}
