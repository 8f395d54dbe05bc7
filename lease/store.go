package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/fingerprint"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
)

// These constants are the default values of the fields of [Config].
const (
	DefaultTTL         = 30 * time.Second
	DefaultMaxDuration = time.Hour
	DefaultMaxSaved    = 1 << 20
	DefaultAskEvery    = time.Second
)

// ShortestTTL is the shortest Config.TTL.
const ShortestTTL = 100 * time.Millisecond

// Config configures a [Store].
type Config struct {
	// TTL is how long a lease is valid after its last renewal, by the clock of the store. After the time TTL
	// another process can take the operation over. The owner renews the lease whenever a third of TTL has
	// passed. TTL must be at least 100 ms. Default: 30 s.
	TTL time.Duration

	// MaxDuration is how long one run of a handler may own an operation. After the time MaxDuration the
	// handler's context ends. Default 1 h.
	MaxDuration time.Duration

	// MaxSaved limits the size in bytes of the JSON that an operation saves. The saved JSON contains the
	// names, values and failures of the phases, and frozen requests (see [CallWith]). If the engine has an
	// Encrypter, the size after encryption counts. Each phase writes the whole saved JSON again. Default 1
	// MiB.
	MaxSaved int

	// If the outcome of a call is unknown, each retry of the operation may call the [Check] of the call.
	// AskEvery is the shortest time between two calls of the Check for one operation, by the clocks of the
	// processes. A caller that retries before the time AskEvery has passed gets the code "unknown", and the
	// time after which the caller can try again. Default 1 s.
	AskEvery time.Duration

	// Eager commits the claim before the handler begins, so that no part of the handler runs on two nodes at
	// the same time. Eager costs one more commit for each operation.
	Eager bool

	// Tracer is called for each phase that runs. Default: no tracer.
	Tracer Tracer

	// Log receives a warning when a handler continues an operation and does not call phases that have already
	// ended. The warning appears, for example, if a new version of the program has renamed phases. Default:
	// [slog.Default].
	Log *slog.Logger
}

// Store is a store for work under leases: see [New].
type Store struct {
	ops   store.Operations
	cfg   Config
	heart *held.Heart
}

var (
	_ store.Store[*Run]   = (*Store)(nil)
	_ ability.Irrevocable = (*Store)(nil)
	_ store.Operations    = (*Store)(nil)
)

// New returns a store that keeps its operations in ops, such as a pgxstore, a sqlstore or a memstore. The
// store uses the same table as other engines on ops. New panics if cfg is invalid, or if ops cannot renew
// leases ([store.Renewer]).
func New(ops store.Operations, cfg Config) *Store {
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.MaxDuration == 0 {
		cfg.MaxDuration = DefaultMaxDuration
	}
	if cfg.MaxSaved == 0 {
		cfg.MaxSaved = DefaultMaxSaved
	}
	if cfg.AskEvery == 0 {
		cfg.AskEvery = DefaultAskEvery
	}
	switch {
	case cfg.TTL < ShortestTTL:
		panic(fmt.Sprintf("lease: New: Config.TTL is %v, and must be at least %v", cfg.TTL, ShortestTTL))
	case cfg.MaxDuration < cfg.TTL:
		panic(fmt.Sprintf("lease: New: Config.MaxDuration is %v, and must not be shorter than the TTL of %v", cfg.MaxDuration, cfg.TTL))
	case cfg.MaxSaved < 0, cfg.AskEvery < 0:
		panic("lease: New: Config.MaxSaved and Config.AskEvery must not be negative")
	}
	renewer, ok := store.As[store.Renewer](ops)
	if !ok {
		panic("lease: New: the store cannot renew leases, because it does not implement store.Renewer. Try: pgxstore, sqlstore, dynamostore or redisstore")
	}
	s := &Store{ops: ops, cfg: cfg}
	s.heart = held.NewHeart(ops, renewer, cfg.TTL, cfg.MaxDuration)
	return s
}

// Unwrap returns the store that keeps the operations.
func (s *Store) Unwrap() any { return s.ops }

// Irrevocable implements [ability.Irrevocable].
func (*Store) Irrevocable() {}

// Config returns the configuration of the store, with its defaults.
func (s *Store) Config() Config { return s.cfg }

// Read implements [store.Operations]. If an operation has stopped during a call, and the call can be made again
// or the service can be asked for its outcome, Read does not return the state [store.StateUnknown].
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := s.ops.Read(ctx, id)
	isUnknown := rec.State == store.StateUnknown
	if err != nil || !isUnknown && (!rec.Idle() || !rec.CallStarted) {
		return rec, err
	}
	if saved, err := decodeSaved(rec.Data); err == nil {
		rec.Checkable = isUnknown && saved.Call.checks(time.Now())
		rec.CallStarted = rec.CallStarted && (isUnknown || !saved.Call.resumable(time.Now()))
	}
	return rec, err
}

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	return s.ops.Swap(ctx, c)
}

var errNoKey = errors.New("work under a lease needs an operation with a scope and a key, because the lease is stored in the record of the operation. Try: set Operation.Scope and Operation.Key")

var errBatch = errors.New("once.DoBatch does not work under a lease, where all writes are made in phases. Try: once.Do, and lease.InBatch for the writes")

// Begin implements [store.Store].
func (s *Store) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*Run], store.Record, error) {
	if opts.ID.IsZero() {
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: errNoKey}
	}
	if opts.Batch {
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: errBatch}
	}
	if err := mayResume(ctx, opts.ID); err != nil {
		return nil, store.Record{}, err
	}
	r := newRun(s, opts)
	eager := s.cfg.Eager || !opts.StaleAfter.IsZero() // with StaleAfter the claim is written first, because the store compares its clock when it writes
	if opts.First && !eager && !reconciles(ctx) {     // the first write finds out whether the operation exists
		return runTx{r}, store.Record{}, nil
	}
	rec, err := r.read(ctx)
	switch {
	case err != nil:
		return nil, store.Record{}, err
	case rec.State == store.StateAbsent && ctx.Value(reconciling{}) == opts.ID: // the operation has ended since the Completer has listed it
		return nil, rec, nil
	case rec.State == store.StateAbsent && !eager:
		return runTx{r}, store.Record{}, nil
	case rec.State == store.StateAbsent:
		return r.claim(ctx)
	case !s.takesOver(ctx, rec, opts.Fingerprint):
		return nil, rec, nil
	}
	return r.takeOver(ctx, rec)
}

// read reads the record. It waits for the store no longer than the engine allows.
func (r *Run) read(ctx context.Context) (store.Record, error) {
	if t := r.opts.Timeouts.Acquire; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	return r.s.Read(ctx, r.id)
}

// takesOver reports whether the run takes over the operation of an existing record.
func (s *Store) takesOver(ctx context.Context, rec store.Record, asked []byte) bool {
	if fingerprint.Differ(rec.Fingerprint, asked) {
		return false // the request is another one
	}
	return rec.Idle() || rec.State == store.StateUnknown && (reconciles(ctx) || s.asks(rec))
}

// asks reports whether it is time to ask the service about an operation whose outcome is unknown.
func (s *Store) asks(rec store.Record) bool {
	saved, err := decodeSaved(rec.Data)
	if err != nil || !saved.Call.checks(time.Now()) {
		return false
	}
	ago := time.Since(saved.Call.Asked) // negative if the clock that has set Asked was ahead
	return ago >= s.cfg.AskEvery || ago <= -s.cfg.AskEvery
}

// claim makes the run the owner of an absent operation.
func (r *Run) claim(ctx context.Context) (store.Transaction[*Run], store.Record, error) {
	switch err := r.swap(ctx, r.running(r.saved)); {
	// Another caller was faster, and its record decides what this caller gets.
	case store.KindOf(err) == store.KindTaken:
		rec, err := r.read(ctx)
		return nil, rec, err
	case err != nil:
		return nil, store.Record{}, err
	}
	return runTx{r}, store.Record{}, nil
}

// takeOver makes the run the owner of an operation that waits for an owner or whose lease is over.
func (r *Run) takeOver(ctx context.Context, rec store.Record) (store.Transaction[*Run], store.Record, error) {
	saved, err := decodeSaved(rec.Data)
	if err != nil {
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: err}
	}
	r.saved, r.found = saved, rec.State
	for _, p := range saved.Phases {
		r.unreached = append(r.unreached, p.Name)
	}
	next := r.record(store.StateRunning, saved)
	next.Fence = rec.Fence + 1
	if rec.Idle() && saved.Call != nil && !saved.Call.resumable(time.Now()) {
		// The owner has died in a call that can be neither repeated nor checked, so only a person can continue.
		next.State = store.StateUnknown
	}
	// The service can no longer be asked, so the outcome stays unknown.
	if rec.State == store.StateUnknown && !saved.Call.checks(time.Now()) {
		return nil, rec, nil
	}
	c := store.Change{
		ID: r.id, Next: next, Lease: r.s.cfg.TTL, KeepRequest: true,
		Expect: store.Expect{Fence: rec.Fence, Nonce: rec.Nonce, LeaseExpired: rec.State == store.StateRunning},
	}
	switch err := r.swap(ctx, c); {
	// Another caller was faster, and its record decides what this caller gets.
	case store.KindOf(err) == store.KindTaken:
		rec, err := r.read(ctx)
		return nil, rec, err
	case err != nil:
		return nil, store.Record{}, err
	}
	if next.State == store.StateUnknown {
		next.Fingerprint, next.Since = rec.Fingerprint, rec.Since
		return nil, next, nil
	}
	return runTx{r}, store.Record{}, nil
}

// isSame reports whether a and b are the same store. Only then can a phase commit together with the record of its operation.
func isSame(a, b any) bool {
	a, b = innermost(a), innermost(b)
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// innermost returns the store that s wraps, directly or indirectly.
func innermost(s any) any {
	for {
		w, wraps := s.(interface{ Unwrap() any })
		if !wraps {
			return s
		}
		s = w.Unwrap()
	}
}
