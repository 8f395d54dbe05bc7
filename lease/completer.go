package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/oncelib/once"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/outages"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// These constants are the default values of the fields of [Completer].
const (
	DefaultConcurrency = 4
	DefaultEvery       = 500 * time.Millisecond
	DefaultCheckEvery  = time.Minute
)

// Handlers has a function for each name of an operation ([once.Operation.Name]). The function executes the
// operation in the same way as a caller with the same request: the function calls [once.Do] with op, and with
// the handler for op. The function sets the fields of op that are not stored with an operation, such as
// Timeouts.
//
//	lease.Handlers{
//		"order":         func(ctx context.Context, op once.Operation) error { _, err := once.Do(ctx, jobs, op, order); return err },
//		"POST /refunds": oncehttp.Resume(engine, cfg, refund), // the name of an HTTP operation is the pattern of its route
//	}
//
// The function with the name "" executes operations without a name, for example operations that were begun by
// an earlier version of this library, which did not store Operation.Name.
type Handlers map[string]func(ctx context.Context, op once.Operation) error

// Completer resumes unfinished operations that have no owner, or whose lease has expired, even if no caller
// sends their requests again. Run one Completer on each node.
type Completer struct {
	// Store is the store of the operations. Required.
	Store *Store

	// Encrypter is the Encrypter with which the engine stores requests. If the request of an operation is not
	// stored, only the caller can execute the operation. Encrypter is required, unless AskOnly is set.
	Encrypter once.Encrypter

	// With AskOnly, the Completer resumes an operation only if the outcome of its call is unknown and the
	// policy of this call has a [Check]. The Completer asks the service about the outcome, and makes no calls.
	// AskOnly needs neither an Encrypter nor stored requests. If the Check returns [Voided], or the handler
	// gets an error of [NotSent], the handler must make no other call in this run. An operation that needs
	// another call continues when its client sends the request again.
	AskOnly bool

	// Handlers execute the operations. If no handler exists for the name of an operation, the Completer does
	// not touch the operation, because another program on the same database may have a handler. The Completer
	// also does not touch operations whose scope is reserved for another package of this library. Required.
	Handlers Handlers

	// Every is the time between two polls for operations to resume. A poll reads at most 5,000 unfinished
	// operations, and the next poll continues after the last of these operations. After a slow poll the
	// Completer waits longer, at most the TTL of the store. An operation that fails repeatedly is resumed at
	// growing intervals, up to one hour. After a decision about an unknown outcome ([Resolve]), the next poll
	// resumes the operation. Default: 500 ms, or the TTL if the TTL is shorter.
	Every time.Duration

	// CheckEvery is the time between two calls of [Check] for an operation whose outcome is unknown.
	// Default 1 min.
	CheckEvery time.Duration

	// Concurrency is how many operations are resumed at the same time. Default 4.
	Concurrency int

	// Log receives the errors of the Completer. If the Completer cannot list the operations, the Completer
	// writes the same error at most once a minute. Default: [slog.Default].
	Log *slog.Logger
}

const (
	pageSize  = 500    // operations that one listing reads
	lookSize  = 5_000  // operations that a poll reads; the next poll continues after them
	queueSize = 10_000 // operations that wait for a worker; if the queue is full, the next poll continues there
	lookShare = 50     // polls take at most 1/50 of the time
)

// Run resumes operations until ctx ends. When ctx has ended, Run waits for the operations that the Completer has
// begun, and returns nil. If the fields of the Completer are invalid, Run returns an error immediately.
func (c Completer) Run(ctx context.Context) error {
	switch {
	case c.Store == nil, len(c.Handlers) == 0:
		return errors.New("lease: Completer.Run: Completer.Store is nil or Completer.Handlers is empty. Try: set both fields")
	case c.Encrypter == nil && !c.AskOnly:
		return errors.New("lease: Completer.Run: Completer.Encrypter is nil, so the Completer cannot decrypt the requests of the operations. Try: the Encrypter of once.Config")
	case c.Every < 0, c.CheckEvery < 0, c.Concurrency < 0:
		return errors.New("lease: Completer.Run: Every, CheckEvery and Concurrency must not be negative. Try: 0 for the default")
	}
	lister, ok := store.As[upkeep.Lister](c.Store.ops)
	if !ok {
		return errors.New("lease: Completer.Run: the store cannot list unfinished operations, because it does not implement upkeep.Lister. Try: pgxstore or sqlstore")
	}
	if c.Every == 0 {
		c.Every = min(DefaultEvery, c.Store.cfg.TTL)
	}
	if c.CheckEvery == 0 {
		c.CheckEvery = DefaultCheckEvery
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	w := completing{Completer: c, lister: lister, fresh: make(chan upkeep.Entry, queueSize), again: make(chan upkeep.Entry, queueSize), tried: map[store.ID]tries{}, strange: map[string]bool{}}
	var outage outages.Log
	var places sync.WaitGroup
	defer places.Wait()
	for range c.Concurrency {
		places.Go(func() { w.work(ctx) })
	}
	for {
		began := time.Now()
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			if omitted, ok := outage.Fails("", err, began); ok {
				c.Log.LogAttrs(ctx, slog.LevelWarn, "the completer could not list the operations whose lease has expired, and tries again later", append(omitted, slog.Any("error", err))...)
			}
		} else if lasted, over := outage.Works("", began); over && err == nil {
			c.Log.LogAttrs(ctx, slog.LevelInfo, "the completer lists the operations whose lease has expired again", lasted)
		}
		// A slow poll burdens the database, so the pause after it grows with it, up to the TTL.
		costs := min(lookShare*time.Since(began), c.Store.cfg.TTL)
		if !held.Pause(ctx, max(c.Every, costs)) {
			return nil
		}
	}
}

// completing is a Completer while it runs.
type completing struct {
	Completer

	lister upkeep.Lister
	fresh  chan upkeep.Entry // operations to resume for the first time
	again  chan upkeep.Entry // operations to resume after earlier tries, or to check
	after  store.ID          // where the next poll continues; zero: at the beginning

	strange map[string]bool // names of due operations that have no handler here: each is logged once

	mu     sync.Mutex
	tried  map[store.ID]tries
	passes int // complete passes over all unfinished operations; one pass takes one poll or more
}

// tries records how often an operation was tried. It exists until the operation is no longer due.
type tries struct {
	count   int // resumptions that have ended
	queued  bool
	told    bool      // it was logged that the outcome is unknown
	unknown bool      // its state was unknown when it was last listed or tried
	next    time.Time // the operation is not tried before this time
	seen    int       // the last pass in which it was due
}

// longestPause is the longest time between two resumptions of an operation that keeps failing.
const longestPause = time.Hour

// pause returns the time until an operation may be resumed again. If Every is more than half an hour, the pause is shorter than Every. The
// pause begins when an attempt ends, which is after its poll. So a pause as long as Every would skip the next poll, and last two
// hours instead of one. Work that becomes due between two polls waits for the next poll, as the documentation of Every says.
func (c *completing) pause(e upkeep.Entry, count int) time.Duration {
	if e.State == store.StateUnknown {
		return c.CheckEvery
	}
	pause := min(c.Every, longestPause/2)
	for range count {
		if pause >= longestPause/2 {
			return longestPause
		}
		pause *= 2
	}
	return pause
}

// round polls for due operations, up to lookSize of them, and queues them. It does not wait for handlers. It continues where the last
// round has ended.
func (c *completing) round(ctx context.Context) error {
	scopes := owner.Listed(ctx)
	if c.after.IsZero() {
		c.passes++
		c.after.Scope = scopes.From
	}
	for range lookSize / pageSize {
		list, next, err := c.list(ctx, upkeep.Listing{After: c.after, Before: scopes.Before, Limit: pageSize, Due: true})
		if err != nil {
			return err
		}
		for _, e := range list {
			switch {
			case owner.Check(ctx, e.Scope) != nil, !c.knows(e), !c.isTime(e), c.endsInCall(ctx, e):
			case c.AskOnly && e.State != store.StateUnknown && !e.CallStarted: // its client continues it
			case !c.enqueue(e):
				// The queue is full. c.after is before e, so that the next round begins with it.
				return nil
			}
			c.after = e.ID
		}
		if c.after = next; next.IsZero() {
			c.forget()
			return nil
		}
		if owner.Check(ctx, next.Scope) != nil { // a page has operations of at most one other owner, so the next page can begin behind the scopes of that owner
			c.after = store.ID{Scope: owner.Of(next.Scope).Scopes().Before}
		}
	}
	return nil
}

// knows reports whether an operation has a handler here. It logs every other name once.
func (c *completing) knows(e upkeep.Entry) bool {
	if c.Handlers[e.Name] != nil {
		return true
	}
	if !c.strange[e.Name] {
		c.strange[e.Name] = true
		c.Log.Info("the completer has found operations with a name that has no entry in Completer.Handlers, and leaves them to other programs", "name", e.Name, "scope", e.Scope)
	}
	return false
}

func (c *completing) list(ctx context.Context, page upkeep.Listing) ([]upkeep.Entry, store.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, held.SettleTime)
	defer cancel()
	return c.lister.Unfinished(ctx, page) //nolint:wrapcheck // it is of the store
}

func (c *completing) read(ctx context.Context, id store.ID) (rec store.Record, s saved, err error) {
	ctx, cancel := context.WithTimeout(ctx, held.SettleTime)
	defer cancel()
	if rec, err = c.Store.ops.Read(ctx, id); err == nil {
		s, err = decodeSaved(rec.Data)
	}
	return rec, s, err
}

// isTime reports whether an operation that is due may be resumed now: it is not queued, and its pause is over.
func (c *completing) isTime(e upkeep.Entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, again := c.tried[e.ID]
	if again {
		was := t.unknown
		t.seen, t.unknown = c.passes, e.State == store.StateUnknown
		if was && !t.unknown {
			// A person or a Check has decided, so the pauses of the earlier tries no longer apply.
			t.count, t.next = 0, time.Time{}
		}
		c.tried[e.ID] = t
	}
	return !t.queued && !time.Now().Before(t.next)
}

// enqueue queues an operation. It returns false if the queue is full and the next poll must begin with e.
func (c *completing) enqueue(e upkeep.Entry) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tried[e.ID]
	queue := c.fresh
	// There are two queues, so that a new operation does not wait behind thousands that keep failing, or whose outcome is
	// unknown.
	if t.count > 0 || e.Fence > 1 || e.State == store.StateUnknown {
		queue = c.again
	}
	select {
	case queue <- e:
	default:
		// A full queue of tried operations does not stop the poll: e waits for the next
		// pass.
		return queue == c.again
	}
	t.queued = true
	c.tried[e.ID] = t
	return true
}

// forget drops the operations that are not due any more, because they have ended or another node has resumed
// them.
func (c *completing) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.tried, func(_ store.ID, t tries) bool { return !t.queued && t.seen < c.passes && time.Now().After(t.next) })
}

// endsInCall marks an operation as unknown if its owner has died in a call that can be neither repeated nor checked. This needs no
// handler, so it does not wait for a worker.
func (c *completing) endsInCall(ctx context.Context, e upkeep.Entry) bool {
	if !e.Idle() || !e.CallStarted {
		return false
	}
	rec, s, err := c.read(ctx, e.ID)
	if err != nil || !rec.Idle() || s.Call.resumable(time.Now()) {
		return false // the run that resumes the operation returns the error
	}
	_, rec, err = newRun(c.Store, store.BeginOptions{ID: e.ID}).takeOver(ctx, rec)
	if err == nil && rec.State == store.StateUnknown {
		c.Log.Error("the outcome of an operation is unknown", "scope", e.Scope, "idempotency_key", keyname.Hashes(e.Key)[0], "since", rec.Since)
	}
	return err == nil
}

// work resumes operations, one after the other, until ctx ends.
func (c *completing) work(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		if e, ok := c.next(ctx, turn%2 == 0); ok {
			c.resumed(e, c.resumeSafely(ctx, e.ID), ctx.Err() != nil)
		}
	}
}

// next waits for an operation to resume. The two queues take turns in being first.
func (c *completing) next(ctx context.Context, fresh bool) (e upkeep.Entry, ok bool) {
	first := c.again
	if fresh {
		first = c.fresh
	}
	select {
	case e = <-first:
		return e, true
	default:
	}
	select {
	case e = <-c.fresh:
	case e = <-c.again:
	case <-ctx.Done():
		return e, false
	}
	return e, true
}

// resumed logs how a resumption has ended, and sets when the operation is tried again.
func (c *completing) resumed(e upkeep.Entry, err error, ended bool) {
	switch {
	case err == nil, once.CodeOf(err) == once.CodeInFlight: // another node was faster
	case once.CodeOf(err) == once.CodeUnknown && c.hasTold(e.ID): // logged once, until the outcome changes
	case once.CodeOf(err) == once.CodeUnknown:
		c.Log.Error("the outcome of an operation is unknown", "scope", e.Scope, "idempotency_key", keyname.Hashes(e.Key)[0], "since", e.Since, "error", err)
	case !ended:
		c.Log.Warn("the completer could not finish an operation whose lease has expired, and tries again later", "scope", e.Scope, "idempotency_key", keyname.Hashes(e.Key)[0], "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tried[e.ID]
	c.tried[e.ID] = tries{count: t.count + 1, told: once.CodeOf(err) == once.CodeUnknown, unknown: e.State == store.StateUnknown, next: time.Now().Add(c.pause(e, t.count)), seen: t.seen}
}

// hasTold reports whether it was logged that the outcome of an operation is unknown.
func (c *completing) hasTold(id store.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried[id].told
}

var errGoexit = errors.New("the handler has called runtime.Goexit. Try: return an error instead")

// resumeSafely calls resume, and returns a panic or the end of the goroutine as an error.
func (c *completing) resumeSafely(ctx context.Context, id store.ID) error {
	ended := make(chan error, 1)
	// A separate goroutine, because the handler may end its goroutine by runtime.Goexit.
	go func() {
		err := errGoexit
		defer func() {
			// Recovered, because a panic would end the processes of all nodes, one after the other.
			if p := recover(); p != nil {
				err = fmt.Errorf("the handler panicked: %v", p)
			}
			ended <- err
		}()
		err = c.resume(ctx, id)
	}()
	return <-ended
}

func (c *completing) resume(ctx context.Context, id store.ID) error {
	rec, s, err := c.read(ctx, id)
	switch {
	case err != nil:
		return err
	case c.Handlers[rec.Name] == nil: // the key belongs to another operation now
		return nil
	case c.AskOnly && !s.Call.checks(time.Now()):
		return nil
	case rec.Idle():
	case rec.State == store.StateUnknown && s.Call.checks(time.Now()):
	default: // finished meanwhile, or a person must decide
		return nil
	}
	// An empty request may be one that was not kept. With it, the handler would do something else.
	if len(rec.Request) == 0 && !c.AskOnly {
		return errors.New("the record of the operation has no request, so the operation cannot be executed again. Try: once.Config.Encrypter and Operation.Request (over HTTP, oncehttp.Config.CaptureRequest)")
	}
	op := once.Operation{Scope: id.Scope, Key: id.Key, Name: rec.Name, Attempt: once.Attempt{Trace: rec.Trace}, Retain: s.Retain}
	if len(rec.Fingerprint) == len(op.Fingerprint) {
		copy(op.Fingerprint[:], rec.Fingerprint)
	}
	if c.AskOnly {
		return c.Handlers[rec.Name](context.WithValue(ctx, reconciling{}, id), op)
	}
	if op.Request, err = c.Encrypter.Decrypt(rec.Request, seal.Label(id.Scope, id.Key)); err != nil {
		return fmt.Errorf("the stored request of the operation cannot be decrypted: %w", err)
	}
	return c.Handlers[rec.Name](context.WithValue(ctx, reconciling{}, id), op)
}

// reconciling is the key of contexts in which an unknown operation is taken over, to be checked. The value is the ID of the operation
// that a Completer resumes.
type reconciling struct{}

func reconciles(ctx context.Context) bool { return ctx.Value(reconciling{}) != nil }

var errHashedKey = errors.New("a Completer cannot resume operations of an engine with Config.HashKeys: the store has only the hash of the key, and the engine would hash this hash again. Try: an engine without HashKeys")

// mayResume refuses an operation that the Completer would execute from the beginning instead of continuing it. With HashKeys, the
// engine hashes the stored hash once more, and finds no record.
func mayResume(ctx context.Context, id store.ID) error {
	of, resumes := ctx.Value(reconciling{}).(store.ID)
	if resumes && id == (store.ID{Scope: of.Scope, Key: keyname.Hashed(of.Key)}) {
		return &store.Error{Kind: store.KindMisused, Err: errHashedKey}
	}
	return nil
}
