package once

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/oncelib/once/internal/engine/flight"
	"github.com/oncelib/once/internal/engine/replay"
	"github.com/oncelib/once/store"
)

// Defaults of [Config].
const (
	DefaultRetain  = 72 * time.Hour // a failure on Friday evening can be retried on Monday
	DefaultRuns    = 3
	DefaultSettle  = 5 * time.Second
	DefaultAcquire = 5 * time.Second
	DefaultSkew    = 5 * time.Minute

	DefaultCacheFor = 30 * time.Second

	DefaultMaxWaiting      = 10_000
	DefaultMaxWaitingBytes = 64 << 20
	DefaultMaxResult       = 16 << 20
)

// KeepForever is a retention that does not end: the operation is done once ever, and no
// sweeper deletes it. It is for keys that name something which happens once in the life of
// its subject, such as "welcome-email:42", and not once for a request.
const KeepForever time.Duration = math.MaxInt64

// Config of an [Engine]. The zero value is ready to use.
type Config struct {
	// Retain is how long a finished operation can be replayed, by the
	// database's clock. Afterwards the key counts as never seen, and a retry executes. At
	// least a minute, and four times Settle; [KeepForever] if it must never run again.
	// Default 72 h.
	Retain time.Duration

	// Runs bounds how often a handler runs in one call when the database
	// answers with serialization failures or deadlocks, what it joins is in flight, or a
	// first attempt (Operation.First) has met a connection that was broken.
	// A call that has lost a race to another one runs again whatever Runs says, at most
	// 20 times: it finds what the other one has stored, unless that is undone each time.
	// Default 3.
	Runs int

	// Settle bounds COMMIT, and then, once more, finding out what became of it when its
	// answer was lost: a call can take twice as long after its handler has returned. It
	// does not end with the caller's context. Stores on database/sql bound COMMIT itself by 10 s
	// (PostgreSQL) or busy_timeout (SQLite). Default 5 s.
	Settle time.Duration

	// Timeouts bound what every operation may wait for: operations that say otherwise
	// go before. Default: 5 s for a connection of the pool, so that a pool which is
	// exhausted is [CodeUnavailable] and not a hang, and then for the answer to what begins
	// the transaction, so that a server which has fallen silent is none either; the rest as
	// the database is configured.
	Timeouts store.Timeouts

	// Cache is how many bytes of memory the results may take that this engine has
	// committed itself lately: their replays do not ask the database. What it has only
	// read is not kept, so that nothing is replayed that a failover to a synchronous
	// standby could take away. One result takes at most an eighth. Default 0: no cache.
	Cache int64

	// CacheFor is how long a result stays in the cache, and so for how long what
	// another process does to its record is not noticed: forgetting it, or, if COMMIT
	// does not wait for the standby, a failover that loses it. [Engine.InvalidateCache] ends it
	// before. It never is more than half of the operation's retention. Default 30 s.
	CacheFor time.Duration

	// MaxWaiting is how many calls may wait at the same time for another call of the same
	// operation, and MaxWaitingBytes how much memory these may keep (Operation.Bytes and
	// Request, and 4 KiB for each call). One more is told CodeInFlight at once, whatever its
	// Operation.Wait is. Default 10,000 and 64 MiB.
	MaxWaiting      int
	MaxWaitingBytes int64

	// MaxResult is how many bytes the result of [Do], [DoBatch] or [Join] may have as JSON.
	// With a larger one the handler is rolled back: CodeFailed. Transports have a limit of their
	// own (MaxStored). Default 16 MiB.
	MaxResult int64

	// Synced makes a replay wait until the record that it returns is as durable
	// as a commit: with a synchronous standby, until that has it. One inside of a
	// [Join] is so when the caller's COMMIT is answered. Default: a replay is a plain
	// read, which may tell of a commit that is still waiting for the standby, and that
	// the next failover takes away.
	Synced bool

	// Skew is how far the clocks of callers that say Operation.FirstSent may be from the
	// database's. A retry is refused that much before the retention of its first attempt
	// may be over; one from further in the future, by the clock of this process, is
	// CodeInvalid. After Retain was made longer, first attempts from before are judged
	// as if they were kept as long. Default 5 minutes, and at most a quarter of the
	// operation's retention.
	Skew time.Duration

	// HashKeys stores the SHA-256 of each key instead of the key, for keys that
	// carry what must not lie in a table. Keys that can be guessed can be found
	// by hashing guesses. Changing it makes stored keys unknown.
	HashKeys bool

	// RequireNamespace refuses keys outside of this namespace, if it is set.
	RequireNamespace Namespace

	// Encrypter keeps Operation.Request with the operation, encrypted. Default: requests
	// are not kept.
	Encrypter Encrypter

	// Observer sees every decision. Default: warnings and errors go to [slog.Default]; to
	// switch that off, set [Discard]. To see the rest as well: [Log]. A [Waker] leaves the default on.
	Observer Observer
}

// Engine executes operations on one store. Make one per database, share it
// between all goroutines.
type Engine[TX any] struct {
	store  store.Store[TX]
	cfg    Config
	alarms bool   // the observer is shown warnings and errors only, and measures nothing
	tracer Tracer // the observer; nil if it is none

	irrevocable bool // the store cannot undo what a handler has done: see store.Irrevocable

	flights *flight.Group
	recent  *replay.Recent
	cache   *replay.Cache
}

// New returns an engine on s. It panics if cfg is invalid, which is a mistake in
// the program, as with [net/http.ServeMux.Handle].
func New[TX any](s store.Store[TX], cfg Config) *Engine[TX] {
	if cfg.Runs < 0 || cfg.Settle < 0 || cfg.Skew < 0 {
		panic(fmt.Sprintf("once: New: Runs %d, Settle %v and Skew %v must not be negative", cfg.Runs, cfg.Settle, cfg.Skew))
	}
	if cfg.Cache < 0 || cfg.CacheFor < 0 {
		panic(fmt.Sprintf("once: New: Cache %d and CacheFor %v must not be negative", cfg.Cache, cfg.CacheFor))
	}
	if cfg.MaxWaiting < 0 || cfg.MaxWaitingBytes < 0 || cfg.MaxResult < 0 {
		panic(fmt.Sprintf("once: New: MaxWaiting %d, MaxWaitingBytes %d and MaxResult %d must not be negative", cfg.MaxWaiting, cfg.MaxWaitingBytes, cfg.MaxResult))
	}
	if negative(cfg.Timeouts) {
		panic(fmt.Sprintf("once: New: Timeouts must not be negative: %+v", cfg.Timeouts))
	}
	if err := cfg.RequireNamespace.check(); cfg.RequireNamespace != (Namespace{}) && err != nil {
		panic("once: New: RequireNamespace: " + err.Error())
	}
	cfg.Retain = or(cfg.Retain, DefaultRetain)
	cfg.Runs = or(cfg.Runs, DefaultRuns)
	cfg.Settle = or(cfg.Settle, DefaultSettle)
	cfg.MaxWaiting = or(cfg.MaxWaiting, DefaultMaxWaiting)
	cfg.MaxWaitingBytes = or(cfg.MaxWaitingBytes, DefaultMaxWaitingBytes)
	cfg.MaxResult = or(cfg.MaxResult, DefaultMaxResult)
	cfg.Timeouts.Acquire = or(cfg.Timeouts.Acquire, DefaultAcquire)
	if cfg.Retain < cfg.minRetain() {
		panic(fmt.Sprintf("once: New: Retain is %v, at least %v is needed to settle a lost commit", cfg.Retain, cfg.minRetain()))
	}
	if cfg.Skew >= cfg.Retain {
		panic(fmt.Sprintf("once: New: with a Skew of %v and a Retain of %v every retry would be too old", cfg.Skew, cfg.Retain))
	}
	alarms := cfg.Observer == nil
	switch cfg.Observer {
	case nil:
		cfg.Observer = logObserver{}
	case Discard:
		cfg.Observer = nil
	default:
		if w, wakes := cfg.Observer.(Waker); wakes {
			cfg.Observer = Observers(w, warnings{})
		}
	}
	tracer, _ := cfg.Observer.(Tracer)
	_, irrevocable := store.As[store.Irrevocable](s)
	return &Engine[TX]{
		store: s, cfg: cfg, alarms: alarms, tracer: tracer, irrevocable: irrevocable,
		flights: flight.NewGroup(cfg.MaxWaiting, cfg.MaxWaitingBytes),
		recent:  replay.NewRecent(),
		cache:   replay.NewCache(cfg.Cache, or(cfg.CacheFor, DefaultCacheFor)),
	}
}

// minRetain is the shortest retention: a call that has lost the answer to its COMMIT must still
// find the record.
func (c Config) minRetain() time.Duration { return max(time.Minute, 4*c.Settle) }

// Retain returns how long operations are kept that do not say so themselves.
func (e *Engine[TX]) Retain() time.Duration { return e.cfg.Retain }

// Store returns the store under the engine.
func (e *Engine[TX]) Store() store.Store[TX] { return e.store }

// Resumable says why another process cannot go on with operations of this engine without their callers, nil if
// it can. It is for transports that keep requests.
func (e *Engine[TX]) Resumable() error {
	switch {
	case !e.irrevocable:
		return errors.New("the engine is not one of package lease: nothing is left of work that stops. Try: lease.New as the store of the engine")
	case e.cfg.Encrypter == nil:
		return errors.New("the engine does not keep requests. Try: Config.Encrypter of the engine")
	case e.cfg.HashKeys:
		return errors.New("the engine does not store keys. Try: an engine without HashKeys")
	}
	return nil
}

// Check says whether the store is reached and has its tables; if not, the error ends with
// what to try. Call it when the program starts, unless it migrates itself, or as a readiness
// probe. A store that cannot tell passes.
func (e *Engine[TX]) Check(ctx context.Context) error {
	if c, ok := store.As[store.Checker](e.store); ok {
		return c.Check(ctx)
	}
	return nil
}

// Tx returns the transaction of the operation that ctx belongs to, while this
// engine executes it: transactions of two databases never mix.
func (e *Engine[TX]) Tx(ctx context.Context) (tx TX, ok bool) {
	if f := e.currentFrame(ctx); f != nil {
		tx, ok = f.tx.(TX)
	}
	return tx, ok
}

// Batch is [Engine.Tx] for the batch of an operation that declares its writes.
func (e *Engine[TX]) Batch(ctx context.Context) (b *Batch, ok bool) {
	if f := e.currentFrame(ctx); f != nil {
		b, ok = f.tx.(*Batch)
	}
	return b, ok
}

// IsDone reports whether op is done, so that it would be replayed and not executed (or
// be refused, if its fingerprint differs). It is for a server that must choose which requests to
// serve, and costs one look-up without a transaction; none if Config.Cache has the result. False
// means that the operation is not done, or that the store has not answered.
func (e *Engine[TX]) IsDone(ctx context.Context, op Operation) bool {
	if e.check(&op) != nil {
		return false
	}
	id := e.id(op.Scope, op.Key)
	if e.cache.Has(id, time.Now()) {
		return true
	}
	rec, err := e.read(ctx, &op, id)
	return err == nil && rec.State == store.StateDone
}

// Read returns what is stored of op and executes nothing. It is for those who ask what has become of an operation.
// The state is [store.StateAbsent] if nothing is stored: nothing was done, or it is being done now by an engine without leases.
// It is [store.StateUnknown] as well if the owner of a lease has died in a call that only a person can find out about, and no
// caller has come since. The bytes of the record must not be changed. Under Config.Synced it may tell of a commit that
// the standby does not have yet.
func (e *Engine[TX]) Read(ctx context.Context, op Operation) (store.Record, error) {
	c := call[TX]{e: e, op: op, id: e.id(op.Scope, op.Key)}
	if err := e.check(&op); err != nil {
		return store.Record{}, c.invalid(err).err
	}
	rec, err := e.read(ctx, &op, c.id)
	if err != nil {
		return store.Record{}, c.fail(CodeUnavailable, EffectNotApplied, err)
	}
	if rec.Idle() && rec.CallStarted {
		rec.State = store.StateUnknown
	}
	rec.Result = rec.Result.WithoutMark()
	return rec, nil
}

// Cached reports whether Config.Cache has the result of op, so that it would be replayed (or be
// refused, if its fingerprint differs) without the store.
func (e *Engine[TX]) Cached(op Operation) bool {
	if e.check(&op) != nil {
		return false
	}
	return e.cache.Has(e.id(op.Scope, op.Key), time.Now())
}

// InvalidateCache forgets what Config.Cache holds of an operation, and what calls that are ending
// now are about to put there. operate.Keys.Forget calls it, if it was told of the engine. Code
// that changes the record of an operation in another way must call it. Without a cache it does
// nothing.
func (e *Engine[TX]) InvalidateCache(scope, key string) {
	e.cache.Drop(store.ID{Scope: scope, Key: key})
	if e.cfg.HashKeys {
		e.cache.Drop(store.ID{Scope: scope, Key: HashedKey(key)})
	}
}

func negative(t store.Timeouts) bool { return min(t.Acquire, t.Lock, t.Statement, t.Idle) < 0 }

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
