package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// Defaults of [Completer].
const (
	DefaultConcurrency  = 4
	DefaultUnknownEvery = time.Minute
)

// Completer goes on with operations whose owner is gone, also if no caller asks for them again. Run one on each node.
type Completer struct {
	// Store is the one with the operations. Required.
	Store *Store

	// Encrypter is that of the engine: it keeps the requests of operations, without which nothing can be
	// executed but by their callers. Required.
	Encrypter once.Encrypter

	// Resume executes an operation as a caller with the same request would: it calls [once.Do] with op, and with the handler for
	// it. Operation.Scope tells operations apart; Name, Retain and the like are not stored, Resume sets them. It is called for all
	// operations that the store keeps under leases. Required.
	Resume func(ctx context.Context, op once.Operation) error

	// Every is the time between two looks. An operation that fails again and again is resumed less and less often, once an hour in
	// the end. Default: the TTL of the store.
	Every time.Duration

	// UnknownEvery is the time between two [Check] of an operation that is unknown. Default 1 min.
	UnknownEvery time.Duration

	// Concurrency is how many operations are resumed at the same time. Default 4.
	Concurrency int

	// Log gets what has failed. Default: [slog.Default].
	Log *slog.Logger
}

// pageSize is how many operations one look-up reads.
const pageSize = 500

// Run resumes operations until ctx ends, then waits for those that it has begun, and returns nil. It returns an error at once if
// the Completer cannot work.
func (c Completer) Run(ctx context.Context) error {
	switch {
	case c.Store == nil, c.Resume == nil:
		return errors.New("lease: a Completer needs Store and Resume")
	case c.Encrypter == nil:
		return errors.New("lease: a Completer needs Encrypter: without the requests of the operations it cannot execute them. Try: the Config.Encrypter of the engine")
	case c.Every < 0, c.UnknownEvery < 0, c.Concurrency < 0:
		return errors.New("lease: Every, UnknownEvery and Concurrency of a Completer must not be negative")
	}
	lister, ok := store.As[store.Lister](c.Store.ops)
	if !ok {
		return errors.New("lease: the store cannot list what is unfinished (store.Lister)")
	}
	if c.Every == 0 {
		c.Every = c.Store.cfg.TTL
	}
	if c.UnknownEvery == 0 {
		c.UnknownEvery = DefaultUnknownEvery
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	w := completing{Completer: c, lister: lister, places: make(chan struct{}, c.Concurrency), tried: map[store.ID]tries{}}
	defer w.begun.Wait()
	for {
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("operations whose owner is gone cannot be listed", "error", err)
		}
		if !sleep(ctx, c.Every) {
			return nil
		}
	}
}

// completing is a Completer that runs.
type completing struct {
	Completer

	lister store.Lister
	places chan struct{}
	begun  sync.WaitGroup

	tried map[store.ID]tries
}

// tries are those of an operation that has not come to its end.
type tries struct {
	count int
	next  time.Time // not before
}

// longestPause is between two resumptions of an operation that fails again and again.
const longestPause = time.Hour

// pause is the time until an operation is resumed again.
func (c *completing) pause(e store.Entry, count int) time.Duration {
	if e.State == store.StateUnknown {
		return c.UnknownEvery
	}
	pause := c.Every
	for range count {
		if pause >= longestPause/2 {
			return max(c.Every, longestPause)
		}
		pause *= 2
	}
	return pause
}

// round looks once at all that is unfinished.
func (c *completing) round(ctx context.Context) error {
	seen := map[store.ID]tries{} // what has come to its end is forgotten
	for after := (store.ID{}); ; {
		page, err := c.lister.Unfinished(ctx, after, pageSize)
		if err != nil {
			return err
		}
		for _, e := range page {
			t, again := c.tried[e.ID]
			if again {
				seen[e.ID] = t
			}
			if e.State != store.StateUnknown && !e.LeaseExpired || time.Now().Before(t.next) {
				continue
			}
			if !c.start(ctx, e) {
				return nil
			}
			seen[e.ID] = tries{t.count + 1, time.Now().Add(c.pause(e, t.count))}
		}
		if len(page) < pageSize {
			c.tried = seen
			return nil
		}
		after = page[len(page)-1].ID
	}
}

// start resumes an operation in a goroutine, as soon as there is a place. It is not ok when ctx has ended.
func (c *completing) start(ctx context.Context, e store.Entry) (ok bool) {
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	c.begun.Go(func() {
		defer func() { <-c.places }()
		switch err := c.resumeSafely(ctx, e.ID); {
		case err == nil, once.CodeOf(err) == once.CodeInFlight: // another node was faster
		case once.CodeOf(err) == once.CodeUnknown:
			c.Log.Error("the outcome of an operation is unknown", "scope", e.Scope, "key", e.Key, "since", e.Since, "error", err)
		case ctx.Err() == nil:
			c.Log.Warn("an operation whose owner is gone could not be finished", "scope", e.Scope, "key", e.Key, "error", err)
		}
	})
	return true
}

// resumeSafely tells of a panic like of an error: it would end the processes of all nodes, one after the other.
func (c *completing) resumeSafely(ctx context.Context, id store.ID) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.resume(ctx, id)
}

func (c *completing) resume(ctx context.Context, id store.ID) error {
	rec, err := c.Store.ops.Read(ctx, id)
	if err != nil {
		return err
	}
	s, err := decodeSaved(rec.Data)
	switch {
	case err != nil:
		return err
	case rec.State == store.StateRunning && rec.LeaseExpired && !s.Call.resumable(time.Now()): // which the store is told first
		_, rec, err = newRun(c.Store, store.BeginOptions{ID: id}).takeOver(ctx, rec)
		if err == nil && rec.State == store.StateUnknown {
			c.Log.Error("the outcome of an operation is unknown", "scope", id.Scope, "key", id.Key, "since", rec.Since)
		}
		return err
	case rec.State == store.StateRunning && rec.LeaseExpired:
	case rec.State == store.StateUnknown && s.Call != nil && s.Call.Check:
	default: // finished meanwhile, or only a person can tell
		return nil
	}
	if len(rec.Request) == 0 {
		return errors.New("its request was not kept. Try: Config.Encrypter of the engine, and Operation.Request")
	}
	op := once.Operation{Scope: id.Scope, Key: id.Key, Trace: rec.Trace}
	if len(rec.Fingerprint) == len(op.Fingerprint) {
		copy(op.Fingerprint[:], rec.Fingerprint)
	}
	if op.Request, err = c.Encrypter.Decrypt(rec.Request, once.EncryptionLabel(id.Scope, id.Key)); err != nil {
		return fmt.Errorf("its request cannot be decrypted: %w", err)
	}
	return c.Resume(context.WithValue(ctx, reconciling{}, id), op)
}

// reconciling marks contexts in which an unknown operation is taken over, to be checked. The value is the operation that a
// Completer resumes.
type reconciling struct{}

func reconciles(ctx context.Context) bool { return ctx.Value(reconciling{}) != nil }

var errHashedKey = errors.New("a Completer cannot work for an engine with HashKeys: it knows the hash of the key, and would execute another operation. Try: an engine without HashKeys")

// mayResume refuses what a Completer would execute anew, although it is to go on: the operation whose key is the hash of
// the stored hash.
func mayResume(ctx context.Context, id store.ID) error {
	of, resumes := ctx.Value(reconciling{}).(store.ID)
	if resumes && id == (store.ID{Scope: of.Scope, Key: once.HashedKey(of.Key)}) {
		return &store.Error{Kind: store.KindMisused, Err: errHashedKey}
	}
	return nil
}
