package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/engine/flight"
	"github.com/oncelib/once/internal/engine/replay"
	"github.com/oncelib/once/store"
)

const (
	defaultRetain  = 72 * time.Hour // a failure on Friday evening can be retried on Monday
	defaultRuns    = 3
	defaultSettle  = 5 * time.Second
	defaultAcquire = 5 * time.Second
	defaultSkew    = 5 * time.Minute

	defaultCacheFor = 30 * time.Second

	defaultMaxWaiting      = 10_000
	defaultMaxWaitingBytes = 64 << 20
	defaultMaxResult       = 16 << 20
)

// Forever is a retention that does not end: the operation is done once ever, and no
// sweeper deletes it. It is for keys that name something which happens once in the life of
// its subject, such as "welcome-email:42", and not once for a request.
const Forever = store.Forever

// Config of an [Engine]. The zero value is ready to use.
type Config struct {
	// Retain is how long a finished operation can be replayed, by the
	// database's clock. Afterwards the key counts as never seen, and a retry executes. At
	// least a minute, and four times Settle; [Forever] if it must never run again.
	// Default 72 h.
	Retain time.Duration

	// Runs bounds how often a handler runs in one call when the database
	// answers with serialization failures or deadlocks, when an operation that it joins is in flight, or when a
	// first attempt (Attempt.Number is 1) has met a broken connection.
	// A call that has lost a race to another one runs again whatever Runs says, at most
	// 20 times: it finds the record of the other one, unless that is undone each time.
	// Default 3.
	Runs int

	// Settle bounds COMMIT, and then, if its answer was lost, the time to find out
	// whether it was applied: a call can take twice as long after its handler has returned. It
	// does not end with the caller's context. Stores on database/sql bound COMMIT itself by 10 s
	// (PostgreSQL) or busy_timeout (SQLite). Default 5 s.
	Settle time.Duration

	// Timeouts bound the waits of every operation; Operation.Timeouts take precedence, one by one.
	// Default: 5 s for a connection of the pool, so that an
	// exhausted pool is [CodeUnavailable] and not a hang, and the same for the answer to the statement that begins
	// the transaction, so that a silent server does not hang the call either; the rest as
	// the database is configured.
	Timeouts store.Timeouts

	// Cache is how many bytes of memory may be used for results that this engine has
	// committed lately: their replays do not ask the database. Results that it has only
	// read are not kept, so that nothing is replayed that a failover to a synchronous
	// standby could take away. One result takes at most an eighth. Default 0: no cache.
	Cache int64

	// CacheFor is how long a result stays in Cache and Shared. For so long this process does not notice
	// that another process has changed the record: that it was forgotten, or, if COMMIT
	// does not wait for the standby, that a failover has lost it. [Engine.InvalidateCache] ends it
	// before. It never is more than half of the operation's retention. Default 30 s.
	CacheFor time.Duration

	// Shared is a cache that all processes of the service have in common, such as package
	// store/redisstore/rediscache: a retry that comes to another process than the first attempt does not ask the
	// database. It is asked after Cache, for calls whose Attempt.Number is not 1, and once for all duplicates of a
	// process. The results that this engine commits are added to it, without a wait. The engine uses only those answers
	// of the cache that say that an operation is done. A cache that is down, that hangs or that has lost
	// everything costs a look-up, of 100 ms at most; after five failures in a row it is not asked for a second.
	// A result stays there for CacheFor, and is encrypted if Encrypter is set; without it, a program that can write to the cache can
	// make up results. Results above 1 MiB are not shared. Not for package lease. Default: no shared cache.
	Shared SharedCache

	// MaxWaiting is how many calls may wait at the same time for another call of the same
	// operation, and MaxWaitingBytes how much memory these may keep (Attempt.Bytes and
	// Request, and 4 KiB for each call). A call above the limit gets CodeInFlight at once, whatever its
	// Operation.Wait is. Default 10,000 and 64 MiB.
	MaxWaiting      int
	MaxWaitingBytes int64

	// MaxResult is how many bytes the result of [Do], [DoBatch] or [Join] may have as JSON.
	// With a larger one the handler is rolled back: CodeFailed. Transports have a limit of their
	// own (MaxStored). Default 16 MiB.
	MaxResult int64

	// Synced makes a replay wait until the record that it returns is as durable
	// as a commit: with a synchronous standby, until the standby has it. Inside of a
	// [Join] that is so when the caller's COMMIT is answered. Default: a replay is a plain
	// read, which may return a commit that still waits for the standby, and that
	// the next failover takes away.
	Synced bool

	// Skew is how far the clocks of callers that say Attempt.FirstSent may be from the
	// database's. A retry is refused that much before the retention of its first attempt
	// may be over; one from further in the future, by the clock of this process, is
	// CodeInvalid. After Retain was made longer, first attempts from before are judged
	// as if they were kept as long. Default 5 minutes, and at most a quarter of the
	// operation's retention.
	Skew time.Duration

	// HashKeys stores the SHA-256 of each key instead of the key, for keys with
	// contents that must not be in a table. Keys that can be guessed can be found
	// by hashing guesses. Changing it makes stored keys unknown.
	HashKeys bool

	// RequireNamespace refuses keys outside of this namespace, if it is set.
	RequireNamespace Namespace

	// Encrypter keeps Operation.Request with the operation, encrypted, and encrypts what Shared
	// holds. Default: requests are not kept.
	Encrypter Encrypter

	// Observer sees every decision. Default: [Warnings]. To log nothing, set [Discard]; to log the
	// rest as well, [Log].
	Observer Observer

	// SlowHandler is how long a handler may run in its transaction before the observer receives
	// an event of the type "slow_handler", once for each run and while it still runs. It is logged as a warning: the handler
	// holds a connection of the pool and its locks. Not for batches, and not within a [Join], whose
	// transaction is the caller's. Default: never.
	SlowHandler time.Duration

	// AfterCommit is called after each call that has committed writes, such as the Wake of an outbox.Relay. It must
	// be quick, and must not call the engine. Default: no function.
	AfterCommit func()
}

// Engine executes operations on one store. Make one per database, share it
// between all goroutines.
type Engine[TX any] struct {
	store  store.Store[TX]
	cfg    Config
	alarms bool   // the observer is shown warnings and errors only, and measures nothing
	tracer Tracer // the observer, if it is a Tracer; else nil

	irrevocable bool // the store cannot undo what a handler has done: see ability.Irrevocable

	flights *flight.Group
	recent  *replay.Recent
	cache   *replay.Cache
	shared  *shared // nil without Config.Shared
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
	if cfg.SlowHandler < 0 {
		panic(fmt.Sprintf("once: New: SlowHandler %v must not be negative", cfg.SlowHandler))
	}
	if negative(cfg.Timeouts) {
		panic(fmt.Sprintf("once: New: Timeouts must not be negative: %+v", cfg.Timeouts))
	}
	if err := cfg.RequireNamespace.check(); cfg.RequireNamespace != (Namespace{}) && err != nil {
		panic("once: New: RequireNamespace: " + err.Error())
	}
	cfg.Retain = or(cfg.Retain, defaultRetain)
	cfg.Runs = or(cfg.Runs, defaultRuns)
	cfg.Settle = or(cfg.Settle, defaultSettle)
	cfg.MaxWaiting = or(cfg.MaxWaiting, defaultMaxWaiting)
	cfg.MaxWaitingBytes = or(cfg.MaxWaitingBytes, defaultMaxWaitingBytes)
	cfg.MaxResult = or(cfg.MaxResult, defaultMaxResult)
	cfg.Timeouts.Acquire = or(cfg.Timeouts.Acquire, defaultAcquire)
	if cfg.Retain < cfg.minRetain() {
		panic(fmt.Sprintf("once: New: Retain is %v, at least %v is needed to settle a lost commit", cfg.Retain, cfg.minRetain()))
	}
	if cfg.Skew >= cfg.Retain {
		panic(fmt.Sprintf("once: New: with a Skew of %v and a Retain of %v every retry would be too old", cfg.Skew, cfg.Retain))
	}
	alarms := cfg.Observer == nil || cfg.Observer == Warnings
	switch {
	case alarms:
		cfg.Observer = logObserver{}
	case cfg.Observer == Discard:
		cfg.Observer = nil
	}
	tracer, _ := cfg.Observer.(Tracer)
	_, irrevocable := store.As[ability.Irrevocable](s)
	if irrevocable && cfg.Shared != nil {
		panic("once: New: Shared is for operations that are one commit, and not for leases. Try: Config.Cache")
	}
	return &Engine[TX]{
		store: s, cfg: cfg, alarms: alarms, tracer: tracer, irrevocable: irrevocable,
		flights: flight.NewGroup(cfg.MaxWaiting, cfg.MaxWaitingBytes),
		recent:  replay.NewRecent(),
		cache:   replay.NewCache(cfg.Cache, or(cfg.CacheFor, defaultCacheFor)),
		shared:  newShared(cfg),
	}
}

// minRetain is the shortest retention: a call that has lost the answer to its COMMIT must still
// find the record.
func (c Config) minRetain() time.Duration { return max(time.Minute, 4*c.Settle) }

// Check says whether the store is reached and has its tables; if not, the error ends with
// what to try. Call it when the program starts, unless it migrates itself, or as a readiness
// probe. A store without a Check passes.
func (e *Engine[TX]) Check(ctx context.Context) error {
	if c, ok := store.As[store.Checker](e.store); ok {
		return c.Check(ctx)
	}
	return nil
}

// InvalidateCache removes an operation from Config.Cache and Config.Shared, and keeps out the results of calls that are
// ending now. operate.Keys.Forget calls it if operate.Keys knows the engine. Code
// that changes the record of an operation in another way must call it. Without a cache it does
// nothing. An error is that of Config.Shared, which may return the result for up to CacheFor.
func (e *Engine[TX]) InvalidateCache(ctx context.Context, scope, key string) (err error) {
	// The caller may know the key, or its hash, as it is stored.
	keys := []string{key}
	if e.cfg.HashKeys {
		keys = append(keys, keyname.Hashed(key))
	}
	for _, key := range keys {
		id := store.ID{Scope: scope, Key: key}
		e.cache.Drop(id)
		if e.shared != nil {
			err = errors.Join(err, e.shared.drop(ctx, id))
		}
	}
	return err
}

func negative(t store.Timeouts) bool { return min(t.Acquire, t.Lock, t.Statement, t.Idle) < 0 }

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
