package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// mend repairs the archive after a crash. It removes a torn line and an unfinished segment, and lists a complete
// segment that is not listed.
func (w *Writer) mend() error {
	if err := w.mended(); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	w.broken = false
	return nil
}

func (w *Writer) mended() error {
	list, text, err := w.listed()
	if err != nil {
		return err
	}
	names, err := w.fs.names(w.dir)
	if err != nil {
		return err
	}
	var whole []string
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, temporary):
			if err := w.fs.remove(w.path(name)); err != nil {
				return err
			}
		case strings.HasSuffix(name, segmentEnd) && !list[name]:
			whole = append(whole, name)
		}
	}
	if int64(len(text)) > w.good || w.broken {
		if err := w.replace(text[:w.good]); err != nil {
			return err
		}
	}
	if err := w.fs.syncDir(w.dir); err != nil { // the renames must be durable before they are listed
		return err
	}
	for _, name := range whole {
		if err := w.adopt(name); err != nil {
			return err
		}
	}
	return nil
}

// listed reads the manifest again. It returns the listed files and the whole text.
func (w *Writer) listed() (names map[string]bool, text []byte, err error) {
	if text, err = io.ReadAll(io.NewSectionReader(w.manifest, 0, 1<<62)); err != nil {
		return nil, nil, err
	}
	list, good, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	names = map[string]bool{}
	for _, s := range list {
		names[s.File] = true
	}
	w.good = good
	return names, text, nil
}

// replace writes the manifest to a new file. After an error of the disk it is unknown which bytes of the old file are on it, even if
// a second flush succeeds.
func (w *Writer) replace(text []byte) error {
	f, err := w.fs.create(w.path(manifestName + temporary))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = w.fs.rename(w.path(manifestName+temporary), w.path(manifestName))
	}
	if err == nil {
		err = w.fs.syncDir(w.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	old := w.manifest
	w.manifest = f
	return old.Close()
}

// adopt lists a segment that was complete, but not listed, when its writer was killed.
func (w *Writer) adopt(name string) error {
	s, err := inspect(w.path(name))
	if err != nil {
		return fmt.Errorf("the file %s is not listed in the manifest, and cannot be added to it: %w. Try: move the file away; its rows are still in the database", name, err)
	}
	s.File, s.Created = name, time.Now().UTC()
	return w.list(s)
}
