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
	defaultRetain  = 72 * time.Hour // so that a failure on Friday evening can be retried on Monday
	defaultRuns    = 3
	defaultSettle  = 5 * time.Second
	defaultAcquire = 5 * time.Second
	defaultSkew    = 5 * time.Minute

	defaultCacheFor = 30 * time.Second

	defaultMaxWaiting      = 10_000
	defaultMaxWaitingBytes = 64 << 20
	defaultMaxResult       = 16 << 20
)

// Forever is a retention that does not end: the record of the operation is never deleted as expired, and the
// operation never executes a second time. Use Forever for a key that names an event, if the event must happen
// only one time, such as "welcome-email:42". Do not use Forever for a key that names one request.
const Forever = store.Forever

// Config configures an [Engine]. The zero value is ready to use.
type Config struct {
	// Retain is how long a finished operation can be replayed, by the database's clock. After the time Retain
	// the key counts as never seen, and a retry executes the operation again. Retain must be at least one
	// minute, and at least four times Settle. If Retain is [Forever], the result is never deleted. Default 72
	// h.
	Retain time.Duration

	// Runs limits how often the handler runs in one call. A handler runs again in three cases: after a
	// serialization failure or a deadlock; if the handler calls [Join] for an operation of which another call
	// is in flight; or if the connection breaks during a first attempt (Attempt.Number is 1). If a call has
	// lost a race against another call of the same operation, the call runs its handler again up to 20 times,
	// even if Runs is smaller. Usually the second run of a call that has lost a race finds the record of the
	// other call and replays the result. A call that has lost a race needs more than two runs only if each
	// other call that has won a race is rolled back. Default 3.
	Runs int

	// Settle limits the time of COMMIT. If the answer to COMMIT is lost, Settle also limits the time in which
	// the engine finds out whether COMMIT was applied. So a call can take up to two times Settle after its
	// handler has returned. The end of the caller's context does not shorten the times that Settle limits.
	// Stores on database/sql limit the time of COMMIT itself to 10 s (PostgreSQL) or to busy_timeout
	// (SQLite). Default 5 s.
	Settle time.Duration

	// Timeouts limit the waits of every operation. A field that is set in Operation.Timeouts takes precedence
	// over the same field of Config.Timeouts.
	//
	// The field Acquire has a default of 5 s. Acquire limits the wait for a connection of the pool, and
	// separately the wait for the answer to the statement that begins the transaction. So a call fails with
	// [CodeUnavailable], and does not hang, if the pool is exhausted or the server is silent. If a field other
	// than Acquire is not set, the timeout in the configuration of the database applies.
	Timeouts store.Timeouts

	// Cache is the maximum number of bytes of memory that the engine uses for recently committed results. The
	// engine replays cached results without asking the database. The engine caches only results that it has
	// committed itself, and no results that it has read from the database: a failover to a synchronous standby
	// could lose a result that was read, and after the failover the engine must not replay a lost result. A
	// result that needs more than an eighth of Cache is not cached. Default 0: no cache.
	Cache int64

	// CacheFor is how long a result stays in Cache and Shared. While a result is in Cache, this process does not notice
	// that the record has disappeared from the database. A record disappears if another process erases the record with
	// Forget, or if a failover loses the record. A failover can lose a record only if COMMIT does not wait for the
	// standby. [Engine.InvalidateCache] removes a result before the time CacheFor has passed. CacheFor is never more
	// than half of the operation's retention. Default 30 s.
	CacheFor time.Duration

	// Shared is a cache that all processes of the service use together, such as package
	// store/redisstore/rediscache. If the first attempt and a retry reach different processes, the process
	// of the retry can replay the result from Shared without asking the database.
	//
	// The engine looks for a result first in Cache, then in Shared. The engine asks Shared only for calls
	// whose Attempt.Number is not 1, and only one time for all concurrent duplicates in a process. The engine
	// writes the results that it commits to Shared, without waiting for the answer of the cache. The engine
	// uses an answer of the cache only if the answer says that the operation is done. If the shared cache is
	// down, hangs or has lost all data, a call takes at most 100 ms longer. After five failures in a row the
	// engine stops asking the shared cache for one second.
	//
	// A result stays in Shared for CacheFor. Results in Shared are encrypted if Encrypter is set. Without
	// Encrypter, a program that can write to the shared cache can forge results. Results above 1 MiB and
	// results of package lease are not shared. Default: no shared cache.
	Shared SharedCache

	// MaxWaiting is how many calls may wait at the same time for another call of the same operation.
	// MaxWaitingBytes is how much memory all waiting calls together may keep. For each waiting call the
	// engine counts Attempt.Bytes, the length of Operation.Request, and 4 KiB. A call above the limit
	// MaxWaiting or MaxWaitingBytes gets CodeInFlight immediately, even if Operation.Wait of the call is set.
	// Defaults 10,000 and 64 MiB.
	MaxWaiting      int
	MaxWaitingBytes int64

	// MaxResult is how many bytes the result of [Do], [DoBatch] or [Join] may have as JSON. If a result is
	// larger, the handler's writes are rolled back and the error is CodeFailed. Transports, such as
	// package oncehttp, have a limit of their own (MaxStored). Default 16 MiB.
	MaxResult int64

	// Synced makes a replay wait until the returned record is as durable as a commit: if the database has a
	// synchronous standby, the replay waits until the standby has the record. For a replay within a [Join],
	// the record is durable when the COMMIT of the caller has succeeded. Default: a replay is a plain read,
	// which may return a record that the standby does not have yet and that a failover can lose.
	Synced bool

	// Skew is by how much the clocks of callers that set Attempt.FirstSent may differ from the database's
	// clock. The engine refuses a retry that finds no record, if less than the time Skew is left until the
	// retention of the first attempt may be over. If FirstSent is further in the future than Skew, by the
	// clock of this process, the error is CodeInvalid. If you make Retain longer, the engine also applies the
	// new retention to first attempts that were sent before the change. Default 5 minutes, and at most a
	// quarter of the operation's retention.
	Skew time.Duration

	// HashKeys stores the SHA-256 of each key instead of the key. Use HashKeys if the contents of keys must
	// not be in a table. HashKeys does not protect keys that can be guessed: a person who can read the
	// table can hash guessed keys and compare the hashes. If HashKeys is changed, the engine no longer
	// finds keys that are already stored.
	HashKeys bool

	// If RequireNamespace is set, the engine refuses keys that do not belong to the namespace RequireNamespace. The zero
	// value allows keys of any form.
	RequireNamespace Namespace

	// Encrypter encrypts Operation.Request and the results in Shared. With an Encrypter, the engine stores the
	// request of an operation. Default: requests are not stored.
	Encrypter Encrypter

	// Observer receives every event of the engine. Default: [Warnings]. To log nothing, set [Discard]; to log
	// every event, set [Log].
	Observer Observer

	// SlowHandler is how long a handler may run in its transaction before the observer receives an event of the
	// type "slow_handler". The observer receives one event "slow_handler" for each run, while the handler still
	// runs. [Warnings] logs the event, because a slow handler holds a connection of the pool and its locks.
	// SlowHandler does not apply to [DoBatch] and [Join]. Default: never.
	SlowHandler time.Duration

	// AfterCommit is called after each call that has committed writes. For example, set AfterCommit to
	// the method Wake of an outbox.Relay. The function AfterCommit must return quickly, and must not call
	// the engine. Default: no function.
	AfterCommit func()
}

// Engine executes operations on one store. Make one Engine per database, and share it between all goroutines.
type Engine[TX any] struct {
	store  store.Store[TX]
	cfg    Config
	alarms bool   // the observer gets only warnings and errors, and the engine measures no times
	tracer Tracer // the observer, if it is a Tracer; else nil

	irrevocable bool // the store cannot undo what a handler has done: see ability.Irrevocable

	flights *flight.Group
	recent  *replay.Recent
	cache   *replay.Cache
	shared  *shared // nil without Config.Shared
}

// New returns an engine on the store s. New panics if cfg is invalid, because an invalid cfg is a mistake in the program;
// [net/http.ServeMux.Handle] panics for the same reason.
func New[TX any](s store.Store[TX], cfg Config) *Engine[TX] {
	if cfg.Runs < 0 || cfg.Settle < 0 || cfg.Skew < 0 {
		panic(fmt.Sprintf("once: New: Config.Runs %d, Config.Settle %v and Config.Skew %v must not be negative", cfg.Runs, cfg.Settle, cfg.Skew))
	}
	if cfg.Cache < 0 || cfg.CacheFor < 0 {
		panic(fmt.Sprintf("once: New: Config.Cache %d and Config.CacheFor %v must not be negative", cfg.Cache, cfg.CacheFor))
	}
	if cfg.MaxWaiting < 0 || cfg.MaxWaitingBytes < 0 || cfg.MaxResult < 0 {
		panic(fmt.Sprintf("once: New: Config.MaxWaiting %d, Config.MaxWaitingBytes %d and Config.MaxResult %d must not be negative", cfg.MaxWaiting, cfg.MaxWaitingBytes, cfg.MaxResult))
	}
	if cfg.SlowHandler < 0 {
		panic(fmt.Sprintf("once: New: Config.SlowHandler %v must not be negative", cfg.SlowHandler))
	}
	if negative(cfg.Timeouts) {
		panic(fmt.Sprintf("once: New: Config.Timeouts must not be negative: %+v", cfg.Timeouts))
	}
	if err := cfg.RequireNamespace.check(); cfg.RequireNamespace != (Namespace{}) && err != nil {
		panic("once: New: Config.RequireNamespace: " + err.Error())
	}
	cfg.Retain = or(cfg.Retain, defaultRetain)
	cfg.Runs = or(cfg.Runs, defaultRuns)
	cfg.Settle = or(cfg.Settle, defaultSettle)
	cfg.MaxWaiting = or(cfg.MaxWaiting, defaultMaxWaiting)
	cfg.MaxWaitingBytes = or(cfg.MaxWaitingBytes, defaultMaxWaitingBytes)
	cfg.MaxResult = or(cfg.MaxResult, defaultMaxResult)
	cfg.Timeouts.Acquire = or(cfg.Timeouts.Acquire, defaultAcquire)
	if cfg.Retain < cfg.minRetain() {
		panic(fmt.Sprintf("once: New: Config.Retain is %v, and must be at least %v, so that a record does not expire before a commit without an answer is known to have succeeded or failed", cfg.Retain, cfg.minRetain()))
	}
	if cfg.Skew >= cfg.Retain {
		panic(fmt.Sprintf("once: New: Config.Skew is %v, and must be shorter than Config.Retain, which is %v: otherwise every retry is too old", cfg.Skew, cfg.Retain))
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
		panic("once: New: Config.Shared does not work with a store of package lease. Try: Config.Cache")
	}
	return &Engine[TX]{
		store: s, cfg: cfg, alarms: alarms, tracer: tracer, irrevocable: irrevocable,
		flights: flight.NewGroup(cfg.MaxWaiting, cfg.MaxWaitingBytes),
		recent:  replay.NewRecent(),
		cache:   replay.NewCache(cfg.Cache, or(cfg.CacheFor, defaultCacheFor)),
		shared:  newShared(cfg),
	}
}

// minRetain returns the shortest retention. A call that has lost the answer to its COMMIT must still find the record when it
// looks.
func (c Config) minRetain() time.Duration { return max(time.Minute, 4*c.Settle) }

// Check reports whether the engine can reach the store, and whether the store has its tables. The text of an
// error of Check ends with an action to try. Call Check as a readiness probe. If the program does not create
// the tables itself, also call Check when the program starts. If the store has no method Check, Engine.Check
// returns nil.
func (e *Engine[TX]) Check(ctx context.Context) error {
	if c, ok := store.As[store.Checker](e.store); ok {
		return c.Check(ctx)
	}
	return nil
}

// InvalidateCache removes the result of an operation from Config.Cache and Config.Shared. Calls of the
// operation that are in flight no longer add their results to the caches. The method operate.Keys.Forget calls
// InvalidateCache of each engine in operate.Config.Caches. Other code that changes the record of an operation
// must call InvalidateCache itself. If the engine has no cache, InvalidateCache does nothing. If Config.Shared
// returns an error, InvalidateCache returns this error, and the shared cache may return the old result for up
// to CacheFor.
func (e *Engine[TX]) InvalidateCache(ctx context.Context, scope, key string) (err error) {
	// The caller may know the key itself, or only its stored hash.
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
