// Package redisstore keeps operations of leased work in Redis 7 or Valkey, for teams that have no database. The
// server may lose a record after it has confirmed the record. If the record of an operation is lost, the
// operation is executed again: docs/redis.md says when records are lost.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
//	mail := once.New(lease.New(redisstore.New(rdb, redisstore.Config{VolatileRecord: true}), lease.Config{}), once.Config{})
//	r, err := once.Do(ctx, mail, op, func(ctx context.Context, run *lease.Run) (string, error) {
//		return lease.Call(ctx, run, "send", send, lease.CallPolicy{DedupedFor: 24 * time.Hour})
//	})
//
// A store in Redis has no transactions for a handler, so it does not implement [store.Store]. If an
// effect and its record must be committed together, use a database that holds both the effect and the
// record.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// DefaultPrefix is the default of Config.Prefix.
const DefaultPrefix = "{once}:"

// replicaWait is how long a call waits for replicas to confirm.
const replicaWait = time.Second

// Config configures a [Store].
type Config struct {
	// VolatileRecord must be true. VolatileRecord confirms that you know that Redis may lose
	// confirmed writes.
	VolatileRecord bool

	// Prefix is the beginning of the names of all keys. Each service needs its own prefix. The part in
	// braces keeps all keys on one shard of a cluster. Default: "{once}:".
	Prefix string

	// Replicas is the number of replicas that must have confirmed a record before the record counts as written,
	// and before a read returns the record. Replicas make the loss of a record in a failover less likely, but
	// do not exclude the loss: Redis may promote a replica that has confirmed nothing. Default: 0, a record
	// counts as written as soon as the primary has the record. A call waits for the replicas for at most one
	// second, so the client's ReadTimeout must be longer than one second.
	Replicas int
}

// Store is a [store.Operations] in Redis. The methods of Store can be called concurrently.
type Store struct {
	rdb     *redis.Client
	cfg     Config
	checked atomic.Bool // Check has found no fault, or the server does not allow the check
}

var (
	_ store.Renewer     = (*Store)(nil)
	_ upkeep.Lister     = (*Store)(nil)
	_ upkeep.Backlogger = (*Store)(nil)
)

// New returns a store on a server. The server needs no preparation. New does not contact the server. Before the store claims (reserves) its first
// operation, the store calls [Store.Check]. The store claims no operation until Store.Check has returned no error. If the server does not allow the
// command INFO, the store works without a successful Store.Check. New panics if Config.VolatileRecord is false. New also panics if the client
// repeats commands by itself: a repeated command would find the record that the first command has written, and would report this record as the
// record of another caller.
func New(rdb *redis.Client, cfg Config) *Store {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	switch timeout := rdb.Options().ReadTimeout; {
	case !cfg.VolatileRecord:
		panic("redisstore: New: Config.VolatileRecord is not set. Redis can lose confirmed records, and operations whose records are lost are executed again. Try: set Config.VolatileRecord if a second execution is acceptable, or use a database")
	case rdb.Options().MaxRetries > 0:
		panic("redisstore: New: the client repeats commands by itself, so the store could not distinguish its own record from the record of another process. Try: redis.Options{MaxRetries: -1}")
	case cfg.Replicas > 0 && timeout > 0 && timeout <= replicaWait:
		panic(fmt.Sprintf("redisstore: New: redis.Options.ReadTimeout is %v, but the store waits %v for the replicas. Try: a longer ReadTimeout", timeout, replicaWait))
	}
	return &Store{rdb: rdb, cfg: cfg}
}

// Volatile implements [upkeep.Volatile].
func (s *Store) Volatile() string {
	failover := "fails over to a replica that is behind"
	if s.cfg.Replicas > 0 {
		failover = fmt.Sprintf("fails over to a replica other than the %d replicas that have confirmed the record", s.cfg.Replicas)
	}
	return "An operation that was answered may be forgotten, and is then executed again, when Redis " + failover + ", loses the end of its append-only file (with appendfsync everysec also in a power failure or a kill) or all of it, or evicts keys."
}

// Check implements [store.Checker]. Check returns an error if package redisstore does not keep its promises on
// the server: if the server evicts keys, has no append-only file, never flushes its append-only file
// (appendfsync no), is a replica, or has fewer replicas than Config.Replicas. Check uses the command INFO of
// Redis, which managed services allow, and CONFIG GET. If the server does not allow CONFIG GET, Check does not
// know the setting appendfsync. Check accepts "appendfsync everysec", with which Redis may lose the writes of
// the last two seconds in a power failure, or if Redis is killed while the disk is busy.
func (s *Store) Check(ctx context.Context) error {
	pipe := s.rdb.Pipeline()
	asked, config := pipe.InfoMap(ctx), pipe.ConfigGet(ctx, appendfsync)
	_, _ = pipe.Exec(ctx) // each command has its own error
	sections, err := asked.Result()
	if err != nil {
		return failed(err, false)
	}
	if err := config.Err(); err != nil && !forbidden(err) {
		return failed(err, false)
	}
	info := map[string]string{appendfsync: config.Val()[appendfsync]}
	for _, section := range sections {
		maps.Copy(info, section)
	}
	if err := s.problem(info); err != nil {
		return &store.Error{Kind: store.KindUnavailable, Err: fmt.Errorf("redisstore: the server at %s %w", s.rdb.Options().Addr, err)}
	}
	return nil
}

// appendfsync is the setting that INFO does not show.
const appendfsync = "appendfsync"

// forbidden reports whether the server has refused a command for good, and not for now.
func forbidden(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && (redis.HasErrorPrefix(err, "NOPERM") || store.KindOf(failed(err, false)) == store.KindOther)
}

// checkOnce calls Check until it has found no fault once. A server that does not allow the check counts as one without a fault.
func (s *Store) checkOnce(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if err := s.Check(ctx); err != nil && !forbidden(err) {
		return err
	}
	s.checked.Store(true)
	return nil
}

// problem returns the fault in the configuration of the server, or nil.
func (s *Store) problem(info map[string]string) error {
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	switch {
	case version < 7:
		return fmt.Errorf("has version %q, which is too old. Try: Redis 7 or newer, or Valkey", info["redis_version"])
	case info["role"] != "master":
		return errors.New("is a replica. Try: the address of the primary")
	case info["maxmemory_policy"] != "noeviction":
		return fmt.Errorf("evicts keys (maxmemory-policy %q), and an operation whose record was evicted is executed again. Try: maxmemory-policy noeviction, on a server that you do not use for caches", info["maxmemory_policy"])
	case info["aof_enabled"] != "1":
		return errors.New("has no append-only file, so a restart would delete all records. Try: appendonly yes")
	case info[appendfsync] == "no":
		return errors.New("never flushes its append-only file (appendfsync no), so a power failure may lose many records. Try: appendfsync always")
	case replicas < s.cfg.Replicas:
		return fmt.Errorf("has %d replicas, but Config.Replicas is %d, so no write would succeed. Try: more replicas, or a smaller Config.Replicas", replicas, s.cfg.Replicas)
	}
	return nil
}
