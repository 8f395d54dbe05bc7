// Package archive writes operations to files when their retention is over, before a sweeper deletes the
// operations. The package also writes rows of other tables to files: delivered messages of an outbox,
// receipts, and events and attempts of webhooks.
//
//	files, err := archive.Open("/var/lib/once/archive")
//	...
//	sweeper := retention.New(engine.Store(), retention.Config{Archive: files.Write})
//
// An archive is a directory. An archive contains segments (files with gzipped lines of JSON) and a manifest, a
// file that lists the segments with their checksums. A segment is written under a temporary name, flushed to
// the disk, renamed, and listed in the manifest. The rows of a segment are deleted from the database only
// after the manifest lists the segment. If the process is killed before the manifest lists a segment, no row
// is lost: either the row is still in the database, or the manifest lists the segment when the archive is
// opened again.
//
// After a crash, a row can be in an archive twice. Rows with the same scope, key and claim are the same
// operation. Rows with the same scope and key but different claims are two operations: one of the two
// operations was executed after the record of the other operation had expired. In the tables that contain no
// operations, two rows are the same row if all their values are equal.
//
// The files of an archive contain answers and requests as the database stores them: data that is encrypted
// in the database is also encrypted in the archive. Only one process at a time can write an archive, so give
// each node a separate directory. Other processes may read the archive at the same time.
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

// Writer adds segments to an archive. The methods of Writer can be called concurrently.
type Writer struct {
	mu       sync.Mutex
	dir      string
	fs       files
	manifest file
	good     int64 // how many bytes of the manifest are whole lines
	broken   bool  // an earlier write was not finished, so the archive must be mended
}

// Open opens the archive in the directory dir. Open creates dir if dir does not exist, and repairs the
// archive after a crash. Open fails if another process has this archive open.
func Open(dir string) (*Writer, error) { return open(dir, osFiles{}) }

func open(dir string, fs files) (_ *Writer, err error) {
	if err := makeDir(fs, dir); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	w := &Writer{dir: dir, fs: fs}
	w.manifest, err = fs.open(w.path(manifestName))
	if errors.Is(err, lockedfile.ErrHeld) {
		return nil, fmt.Errorf("archive: another process writes to the directory %s: %w. Try: a separate directory for each process", dir, err)
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

// Close releases the lock on the archive, so that another process can write to the archive. Close writes no
// rows, because all rows that were passed to Write are already on the disk.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.manifest.Close()
}

// Write writes rows into a new segment. When Write returns nil, the segment is on the disk. Set the field
// Archive of retention.Config or of upkeep.Sweep to the method Write.
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
	w.broken = true // until the segment is listed
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

// write makes a segment. The segment is not listed yet.
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
	// In this order, because each step passes its last bytes to the next one.
	for _, step := range []func() error{packed.Close, buffer.Flush, f.Sync} {
		if err == nil {
			err = step()
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return s, err
	}
	s.Bytes, s.SHA256 = sum.n, hex.EncodeToString(sum.hash.Sum(nil))
	// After the flush, so that a file with its final name is always whole.
	if err := w.fs.rename(w.path(s.File+temporary), w.path(s.File)); err != nil {
		return s, err
	}
	return s, w.fs.syncDir(w.dir)
}

// newName returns a unique name for a segment. Names sort by time.
func newName(at time.Time) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return at.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:]) + segmentEnd
}

const (
	segmentEnd = ".jsonl.gz"
	temporary  = ".tmp"
)

// summed hashes and counts the bytes that are written through it.
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
