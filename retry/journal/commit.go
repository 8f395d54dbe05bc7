package journal

import (
	"errors"
	"fmt"
)

// batch is a group of records that one write puts into the file.
type batch struct {
	payloads [][]byte
	opened   []*entry
	flush    bool // a caller waits until the records are on the disk
	done     bool
	err      error
}

func (b *batch) add(r *record) error {
	payload, err := r.encode()
	if err != nil {
		return err
	}
	if len(payload) > maxPayload {
		return fmt.Errorf("journal: the intent has %d bytes, and at most %d are allowed", len(payload), maxPayload)
	}
	b.payloads = append(b.payloads, payload)
	return nil
}

// flush returns when b is on the disk. The first caller writes the records of all callers that wait.
func (f *File) flush(b *batch) error {
	f.writing.Lock()
	// Another caller may have written this batch while this one waited for the lock.
	if !b.done {
		f.commit()
	}
	f.writing.Unlock()
	f.drain()
	return b.err
}

// drain writes the records that no caller waits for. If another goroutine is writing, drain leaves them to this goroutine.
func (f *File) drain() {
	for f.pending() && f.writing.TryLock() {
		f.commit()
		f.writing.Unlock()
	}
}

func (f *File) pending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.next.payloads) > 0 && !f.next.flush
}

// commit writes the next batch, and flushes it if a caller waits for the flush. The caller holds f.writing.
func (f *File) commit() {
	f.mu.Lock()
	b, err := f.next, f.err
	f.next = new(batch)
	f.mu.Unlock()
	if err == nil && len(b.payloads) > 0 {
		err = f.put(b)
	}
	f.mu.Lock()
	b.done, b.err = true, err
	for _, e := range b.opened {
		e.in = nil
		// The caller gets an error and does not send the request, so the intent must not stay.
		if err != nil {
			f.table.remove(e)
		}
	}
	f.mu.Unlock()
	if err == nil && f.size > f.limit {
		f.shrink()
	}
}

func (f *File) put(b *batch) error {
	// The next process would not find an intent in a file that was removed.
	if err := f.current(); err != nil {
		return f.fail(err)
	}
	var frames []byte
	for _, payload := range b.payloads {
		frames = f.salt.frame(frames, f.size+int64(len(frames)), f.flushed, payload)
	}
	if _, err := f.out.WriteAt(frames, f.size); err != nil {
		return f.undo(err)
	}
	if b.flush {
		// After a failed flush the content of the file is unknown. A second flush would prove nothing, because the operating system may have dropped
		// the written pages.
		if err := f.out.Sync(); err != nil {
			return f.fail(errors.Join(err, f.out.Truncate(f.size)))
		}
		f.flushed = f.size + int64(len(frames))
	}
	f.size += int64(len(frames))
	if b.flush {
		f.writeFlushFrame()
	}
	return nil
}

// writeFlushFrame writes a frame which says that all earlier frames have been flushed. If the disk has no room for it, later damage may not be
// detected. Nothing is lost, and the next write overwrites the incomplete frame.
func (f *File) writeFlushFrame() {
	m := f.salt.frame(nil, f.size, f.flushed, nil)
	if _, err := f.out.WriteAt(m, f.size); err == nil {
		f.size += int64(len(m))
	}
}

// undo removes a failed write, so that the next write can succeed, for example when the disk has room again.
func (f *File) undo(err error) error {
	if cut := f.out.Truncate(f.size); cut != nil {
		return f.fail(errors.Join(err, cut))
	}
	return fmt.Errorf("%w. Try: free space on the disk of %s, and then send the same request again", err, f.path)
}

// fail makes all later calls of the journal return err.
func (f *File) fail(err error) error {
	err = fmt.Errorf("%w (%w)", ErrBroken, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	return err
}

// shrink writes a new file that has only the open intents. If this fails, the journal keeps the old file, and tries again when the file has doubled.
func (f *File) shrink() {
	if err := f.rewrite(); err != nil {
		f.limit = 2 * f.size
	}
}

// snapshot returns records of the open intents and of the last ID. Without the last ID, a later intent could get the ID of a closed one.
func (f *File) snapshot() (payloads [][]byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	records := []*record{}
	if e := f.table.byID[f.table.last]; f.table.last > 0 && (e == nil || e.in != nil) {
		records = append(records, &record{Kind: kindClose, ID: f.table.last})
	}
	for _, e := range f.table.entries() {
		if e.in == nil { // an entry with a batch will be written by this batch
			records = append(records, &e.record)
		}
	}
	for _, r := range records {
		payload, err := r.encode()
		if err != nil {
			return nil, err
		}
		payloads = append(payloads, payload)
	}
	return payloads, nil
}

// rewrite writes a new file that has only the open intents. The caller holds f.writing.
func (f *File) rewrite() error {
	payloads, err := f.snapshot()
	if err != nil {
		return err
	}
	s := newSalt()
	text := make([]byte, headerSize)
	for _, payload := range payloads {
		text = s.frame(text, int64(len(text)), 0, payload)
	}
	base := int64(len(text))
	copy(text, s.header(base))
	out, err := f.replace(text)
	if err != nil {
		return err
	}
	old := f.out
	// The new file already has its name, so the old one cannot be used any more.
	if err := f.use(out); err != nil {
		return f.fail(errors.Join(err, out.Close()))
	}
	// The new file has its own lock, so the lock of the old one can end.
	old.Close()
	f.salt, f.size, f.flushed, f.limit = s, base, base, max(f.cfg.Compact, 4*base)
	return nil
}

// replace replaces the old file by a new one. The new file is locked before it gets the name of the old one, so that no other process can lock it
// first.
func (f *File) replace(text []byte) (file, error) {
	out, err := f.disk.create(f.path + ".tmp")
	if err != nil {
		return nil, err
	}
	if _, err = out.WriteAt(text, 0); err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = f.current() // another process may have created a journal at this path
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	// From here on, a crash may leave either file under this name.
	if err = f.disk.rename(f.path+".tmp", f.path); err == nil {
		err = f.disk.syncDir(f.path)
	}
	if err != nil {
		return nil, errors.Join(f.fail(err), out.Close())
	}
	return out, nil
}
