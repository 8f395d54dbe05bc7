package once

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/engine/replay"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// SharedCache is a cache outside the database, in which each process of a service finds the results of all
// other processes: see Config.Shared. Package store/redisstore/rediscache implements SharedCache. A
// SharedCache may lose and evict values at any time, and may hang: then the engine looks up operations in
// the database. The method Get must not return the value of another key. Many goroutines call the methods
// of a SharedCache at the same time.
type SharedCache interface {
	// Get returns the value of key. The key consists of letters, digits, "-" and "_", and does not reveal the key of the operation. If the cache has
	// no value of key, Get returns an empty value.
	Get(ctx context.Context, key string) ([]byte, error)

	// Add stores value under key until the time until, unless the key has a value already; an empty value counts as a value. The parameter until is a
	// point in time and not a duration, so that a value which arrives late is not kept too long.
	Add(ctx context.Context, key string, value []byte, until time.Time) error

	// Replace stores value under key until the time until, whether or not the key has a value. The engine
	// stores an empty value for an operation that was forgotten, so that a call which is still in flight does
	// not add the result again.
	Replace(ctx context.Context, key string, value []byte, until time.Time) error
}

const (
	sharedTimeout  = 100 * time.Millisecond // limit of a look-up and of an Add
	sharedDrop     = 2 * time.Second        // limit of the removal of a result; longer, because a person waits for it
	sharedFailures = 5                      // failures in a row after which the cache is not asked; a busy host causes one or two
	sharedPause    = time.Second            // how long the cache is not asked; then one look-up tries again
	sharedQueue    = 1000                   // results that may wait to be added
	sharedBytes    = 8 << 20                // bytes of these results together
	sharedLargest  = 1 << 20                // bytes of the largest result
	sharedWriters  = 4                      // goroutines that empty the queue
)

// shared is what the engine keeps for Config.Shared.
type shared struct {
	cache      SharedCache
	encrypter  Encrypter
	life, hold time.Duration // how long a result stays, and how long the note that it was forgotten stays

	mu       sync.Mutex
	failures int       // failures in a row
	resumes  time.Time // when the cache is asked again after too many failures
	queue    []sharedResult
	bytes    int // bytes in the queue
	writers  int

	hits, misses, skipped, errors uint64
}

// sharedResult is a result that waits to be sent to the cache.
type sharedResult struct {
	id    store.ID
	rec   store.Record
	until time.Time
	size  int
}

func newShared(cfg Config) *shared {
	if cfg.Shared == nil {
		return nil
	}
	life := or(cfg.CacheFor, defaultCacheFor)
	return &shared{cache: cfg.Shared, encrypter: cfg.Encrypter, life: life, hold: life + or(cfg.Skew, defaultSkew)}
}

// get returns the result of id, if the cache has it. A value is ignored if it does not say that the operation is done, or if it has expired by the clock of
// this process.
func (s *shared) get(ctx context.Context, id store.ID) (rec store.Record, ok bool) {
	if !s.admits() {
		return rec, false
	}
	timeout := sharedTimeout
	if deadline, has := ctx.Deadline(); has {
		timeout = min(timeout, time.Until(deadline)/2) // the database needs the rest of the time
	}
	var value []byte
	err := s.ask(ctx, timeout, func(ctx context.Context) (err error) {
		value, err = s.cache.Get(ctx, sharedKey(id))
		return err
	})
	if err != nil {
		return rec, false
	}
	rec, until, err := s.open(id, value)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.errors++
	case rec.State == store.StateDone && time.Now().Before(until):
		s.hits++
		return rec, true
	default:
		s.misses++
	}
	return rec, false
}

// put queues the result of id for the cache, and does not wait. sent is when its COMMIT was sent, which was answered.
func (s *shared) put(id store.ID, rec store.Record, retain time.Duration, sent time.Time) {
	r := sharedResult{id, rec, sent.Add(min(s.life, retain/2)), len(rec.Result.Body) + head.Size(rec.Result.Header)}
	s.mu.Lock()
	defer s.mu.Unlock()
	// If the cache is slow, results are not shared: a slow cache must cost neither memory nor the time of a
	// call.
	if r.size > sharedLargest || s.bytes+r.size > sharedBytes || len(s.queue) == sharedQueue {
		s.skipped++
		return
	}
	s.queue, s.bytes = append(s.queue, r), s.bytes+r.size
	if s.writers < sharedWriters {
		s.writers++
		go s.write()
	}
}

// write adds the queued results to the cache, and ends when the queue is empty.
func (s *shared) write() {
	for r, ok := s.next(); ok; r, ok = s.next() {
		// Dropped: a queue that waits for the cache would grow, and a missing result costs only a
		// look-up.
		if !s.admits() {
			continue
		}
		_ = s.ask(context.Background(), sharedTimeout, func(ctx context.Context) (err error) {
			value := replay.Encode(&r.rec, r.until)
			if s.encrypter != nil {
				value, err = s.encrypter.Encrypt(value, sharedLabel(r.id))
			}
			if err != nil {
				return err //nolint:wrapcheck // it is only counted
			}
			return s.cache.Add(ctx, sharedKey(r.id), value, r.until) //nolint:wrapcheck // likewise
		})
	}
}

// next takes a result from the queue.
func (s *shared) next() (r sharedResult, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.queue = nil // otherwise the slice would keep the results in memory
		s.writers--
		return r, false
	}
	r, s.queue = s.queue[0], s.queue[1:]
	s.bytes -= r.size
	return r, true
}

// drop makes the cache forget the result of id. A result that is on its way to the cache is kept out.
func (s *shared) drop(ctx context.Context, id store.ID) error {
	// The empty value stays longer than a call can take to add its result: Add does not overwrite it.
	err := s.ask(ctx, sharedDrop, func(ctx context.Context) error {
		return s.cache.Replace(ctx, sharedKey(id), nil, time.Now().Add(s.hold)) //nolint:wrapcheck // below
	})
	if err != nil {
		return fmt.Errorf("once: the result was not deleted from the cache Config.Shared, which may return the result for up to %v: %w. Try: forget the result again", s.life, err)
	}
	return nil
}

// admits reports whether the cache may be asked. After too many failures no call asks for a while. Then one call asks, and other calls
// continue without the cache until it has an answer.
func (s *shared) admits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures < sharedFailures {
		return true
	}
	now := time.Now()
	if now.Before(s.resumes) {
		s.skipped++
		return false
	}
	s.resumes = now.Add(sharedPause)
	return true
}

var errNoSharedAnswer = errors.New("the shared cache (Config.Shared) has not answered in time")

// ask calls f, and waits for it no longer than timeout, even if f continues. It notes whether f has answered. If the caller goes away before
// the answer, this counts as a failure, too: callers give up because they have to wait.
func (s *shared) ask(ctx context.Context, timeout time.Duration, f func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoSharedAnswer)
	defer cancel()
	// With room for one value, so that the goroutine ends even if no call waits for its answer any more.
	answer := make(chan error, 1)
	// In a goroutine, because a client of the cache may ignore the end of ctx.
	go func() { answer <- f(ctx) }()
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.failures = 0
		return nil
	}
	s.errors++
	if s.failures++; s.failures >= sharedFailures {
		s.resumes = time.Now().Add(sharedPause)
	}
	return err
}

// open decodes a value. An empty value is an absent record.
func (s *shared) open(id store.ID, value []byte) (rec store.Record, until time.Time, err error) {
	if s.encrypter != nil && len(value) > 0 {
		value, err = s.encrypter.Decrypt(value, sharedLabel(id))
	}
	if err != nil || len(value) == 0 {
		return rec, until, err //nolint:wrapcheck // it is only counted
	}
	return replay.Decode(value) //nolint:wrapcheck // so is this one
}

// sharedKey returns the name of id in the cache. It is a hash, because the key of an operation may be personal data.
func sharedKey(id store.ID) string {
	hash := sha256.Sum256([]byte(strconv.Itoa(len(id.Scope)) + " " + id.Scope + id.Key))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// sharedLabel binds a value to its operation, and to this use of the Encrypter.
func sharedLabel(id store.ID) []byte { return append(seal.Label(id.Scope, id.Key), "\x00shared"...) }
