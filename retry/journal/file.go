package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Config configures a journal. The zero value is ready to use.
type Config struct {
	// Headers are the names of request headers that are stored in addition to the usual headers, such as Content-Type, Accept and If-Match. Opening
	// a journal fails if Headers names a header that is known to carry secrets, such as Authorization.
	Headers []string

	// Compact is a size in bytes. If the file of the journal is larger than Compact, and most of its content
	// is obsolete, the journal rewrites the file. Default: 4 MiB.
	Compact int64

	// MaxOpen is the largest number of open intents in a [File], and MaxBytes is the largest number of bytes of these intents together. The limits
	// exist because a File keeps open intents in memory. If a File is full, a further intent fails with [ErrFull], and the request of this intent
	// is not sent. The requests of intents that are already open can still be sent again, and an operator can resolve these intents. A [Table]
	// does not have the limits MaxOpen and MaxBytes. Default: 100,000 intents and 256 MiB.
	MaxOpen  int
	MaxBytes int64
}

// These are the defaults of [Config].
const (
	DefaultMaxOpen  = 100_000
	DefaultMaxBytes = 256 << 20
)

// File is a [Journal] in a file. The methods of File can be called concurrently.
type File struct {
	path   string
	cfg    Config
	disk   disk
	damage Damage

	writing sync.Mutex // held while the disk is written; locked before mu
	out     file
	self    os.FileInfo // the identity of out
	salt    salt
	size    int64 // the length of the complete records
	flushed int64 // the length of the flushed part
	limit   int64 // a longer file is rewritten

	mu    sync.Mutex
	table *table
	next  *batch
	err   error // all later calls return this error
}

// Damage returns which part of the file [Open] has dropped because a crash had left this part incomplete. If Open has dropped nothing, Damage
// returns a zero Damage.
func (f *File) Damage() Damage { return f.damage }

// Begin implements [Journal]. Begin returns when the intent is on the disk, even if ctx has ended.
func (f *File) Begin(_ context.Context, in Intent) (Intent, error) {
	// Secrets must not reach the disk.
	kept, err := f.cfg.Redact(in)
	if err != nil {
		return in, err
	}
	e, b, again, err := f.begin(in.ID, record{
		Kind: kindOpen, Key: kept.Key, Method: kept.Method, URL: kept.URL, Header: kept.Header,
		Since: millis(kept.Since), Expires: millis(in.Expires), body: slices.Clone(in.Body),
	})
	if err != nil {
		return in, err
	}
	if b != nil { // the batch may belong to another call that begins the same intent at the same time
		if err := f.flush(b); err != nil {
			return in, fmt.Errorf("journal: the intent could not be stored, so its request was not sent: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := e.intent()
	out.Again = again
	return out, nil
}

// begin returns the intent of a request. If the intent is not on the disk yet, it also returns the batch that will write it.
func (f *File) begin(id string, r record) (e *entry, b *batch, again bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, nil, false, f.err
	}
	e = f.table.byName[r.name()]
	switch {
	case id != "" && (e == nil || e != f.table.find(id)):
		return nil, nil, false, ErrGone
	case e == nil:
		if err := f.room(&r); err != nil {
			return nil, nil, false, err
		}
		r.ID = f.table.last + 1
		if err := f.next.add(&r); err != nil {
			return nil, nil, false, err
		}
		e = &entry{record: r, in: f.next}
		f.next.opened, f.next.flush = append(f.next.opened, e), true
		f.table.add(e)
	// With the same key, a server would refuse one of the two requests.
	case !slices.Equal(e.body, r.body) || !slices.Equal(e.Header["Content-Type"], r.Header["Content-Type"]):
		return nil, nil, false, ErrMismatch
	default:
		again = true
	}
	e.begun++
	return e, e.in, again, nil
}

// room returns an error if the journal has no room for another intent. The caller holds f.mu.
func (f *File) room(r *record) error {
	open, bytes := len(f.table.byID), f.table.bytes
	if open < f.cfg.MaxOpen && bytes+r.size() <= f.cfg.MaxBytes {
		return nil
	}
	return fmt.Errorf("%w: %d intents with %d bytes are open, and at most %d intents (Config.MaxOpen) with %d bytes (Config.MaxBytes) are allowed. Try: journal.Resume, or once journal list and once journal resolve", ErrFull, open, bytes, f.cfg.MaxOpen, f.cfg.MaxBytes)
}

// End implements [Journal]. If End closes an intent, End does not flush this change to the disk: the change reaches the disk together with the
// next intent. If the power fails before this change is on the disk, the request of the closed intent is sent one more time, with the same key.
// If End stores a new expiry of the key, or holds the intent for an operator, this change is on the disk when End returns.
func (f *File) End(_ context.Context, in Intent, o Proof) error {
	note, err := f.end(in, o)
	if err != nil || note == nil {
		f.drain()
		return err
	}
	if err := f.flush(note); err != nil {
		return fmt.Errorf("journal: the expiry of the key %q could not be stored: %w", in.Key, err)
	}
	return nil
}

// end returns the batch that will write a note, or nil if no note is needed.
func (f *File) end(in Intent, o Proof) (note *batch, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.table.find(in.ID)
	if e == nil || f.err != nil { // another call has already closed the intent
		return nil, f.err
	}
	e.begun--
	e.doubt = e.doubt || o == ProofNone || o == ProofExpired
	// An intent without effect is closed only if no other call of it may have had an effect.
	if o == ProofAnswered || o == ProofUntouched && !e.doubt && e.begun <= 0 {
		return nil, f.close(e)
	}
	expires, held := e.Expires, e.Held
	// An expiry only becomes earlier: at that time the server may delete the key.
	if sooner := millis(in.Expires); sooner != 0 && (expires == 0 || sooner < expires) {
		expires = sooner
	}
	if o == ProofExpired && held == "" {
		held = "its key has expired"
	}
	if expires == e.Expires && held == e.Held {
		return nil, nil //nolint:nilnil // nil means that nothing must be written
	}
	e.Expires, e.Held, f.next.flush = expires, held, true
	return f.next, f.next.add(&record{Kind: kindNote, ID: e.ID, Expires: expires, Held: held})
}

// close removes an intent. The caller holds f.mu.
func (f *File) close(e *entry) error {
	f.table.remove(e)
	return f.next.add(&record{Kind: kindClose, ID: e.ID})
}

// Resolve closes the intent with this ID, after an operator has found out its outcome. When Resolve returns without an error, the change is on the
// disk.
func (f *File) Resolve(_ context.Context, id string) error {
	b, err := f.resolve(id)
	if err != nil {
		return err
	}
	return f.flush(b)
}

func (f *File) resolve(id string) (*batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.table.find(id)
	switch {
	case f.err != nil:
		return nil, f.err
	case e == nil:
		return nil, fmt.Errorf("journal: the journal has no open intent with the ID %s", id)
	// The request may still get an answer, and would then close an intent that is gone.
	case e.begun > 0:
		return nil, fmt.Errorf("journal: a request of intent %s is still in flight. Try: resolve the intent after the end of this request", id)
	}
	f.next.flush = true
	return f.next, f.close(e)
}

// Close closes the journal. After Close another process can open the journal.
func (f *File) Close() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	if errors.Is(f.err, ErrClosed) {
		defer f.mu.Unlock()
		return ErrClosed
	}
	// Close must not lose the records that no caller has waited for.
	f.next.flush = true
	b := f.next
	f.mu.Unlock()
	f.commit()
	f.mu.Lock()
	f.err = ErrClosed
	f.mu.Unlock()
	return errors.Join(b.err, f.out.Close())
}

// List implements [Journal].
func (f *File) List(context.Context) ([]Intent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	return f.table.intents(), nil
}

// Read returns the open intents of the journal at path. Read works even while a process has the
// journal open.
func Read(path string) ([]Intent, Damage, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Damage{}, fmt.Errorf("journal: %w", err)
	}
	t, damage, err := readTable(text)
	if err != nil {
		return nil, damage, fmt.Errorf("%s: %w", path, err)
	}
	return t.intents(), damage, nil
}
