package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/oncelib/once/store/upkeep"
)

// manifestName is a file with one line for each segment. Only the last line can be torn, and a torn line does
// not count.
const manifestName = "manifest.jsonl"

// Segment is the entry for one segment in the manifest (the list of segments) of an archive.
type Segment struct {
	Version int       `json:"v"`
	File    string    `json:"file"`
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"` // the checksum of the file, in hexadecimal
	First   time.Time `json:"first"`  // First and Last are the earliest and the latest of the times at which rows of the segment expired
	Last    time.Time `json:"last"`
	Created time.Time `json:"created"`
}

// widen extends the times and the version of s for one more row.
func (s *Segment) widen(e upkeep.Expired) {
	s.Version = max(s.Version, versionOf(e))
	at := e.At.UTC()
	if s.Rows == 0 || at.Before(s.First) {
		s.First = at
	}
	if s.Rows == 0 || at.After(s.Last) {
		s.Last = at
	}
}

// list adds a segment to the manifest.
func (w *Writer) list(s Segment) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := w.manifest.WriteAt(line, w.good); err != nil {
		return err
	}
	if err := w.manifest.Sync(); err != nil {
		return err
	}
	w.good += int64(len(line))
	return nil
}

// parse reads a manifest. good is the number of bytes in whole lines.
func parse(text []byte) (list []Segment, good int64, err error) {
	for n := 1; ; n++ {
		end := bytes.IndexByte(text[good:], '\n') + 1
		if end == 0 {
			return list, good, nil
		}
		var s Segment
		err := json.Unmarshal(text[good:good+int64(end)], &s)
		switch last := good+int64(end) == int64(len(text)); {
		case err != nil && last: // torn, because the machine has lost its power
			return list, good, nil
		case err != nil || s.Version < 1 || s.File == "" || s.File != filepath.Base(s.File):
			return nil, 0, fmt.Errorf("archive: line %d of the manifest is damaged. Try: a copy of the manifest; the other files of the archive can be read without the manifest", n)
		case s.Version > version:
			return nil, 0, fmt.Errorf("archive: the manifest has version %d, which this program does not know. Try: a newer release of once", s.Version)
		}
		list, good = append(list, s), good+int64(end)
	}
}
