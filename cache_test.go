package once_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// counting counts what is asked of a store, by whatever way.
type counting struct {
	*memstore.Store
	n atomic.Int64
}

func (s *counting) Read(ctx context.Context, id store.ID) (store.Record, error) {
	s.n.Add(1)
	return s.Store.Read(ctx, id)
}

func (s *counting) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
	s.n.Add(1)
	return s.Store.Begin(ctx, ask)
}

func (s *counting) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	s.n.Add(1)
	return s.Store.Swap(ctx, c)
}

// caching is an engine with a cache, and questions to it.
type caching struct {
	*testing.T
	s *counting
	e *once.Engine[tx]
}

const mebibyte = 1 << 20

func newCaching(t *testing.T, cfg once.Config) caching {
	t.Helper()
	s := &counting{Store: memstore.New()}
	if cfg.Cache == 0 {
		cfg.Cache = mebibyte
	}
	return caching{t, s, once.New[tx](s, cfg)}
}

// ask asks for the operation of key and returns the value, and whether the store had
// to be asked.
func (c caching) ask(op once.Operation) (value string, replayed, asked bool) {
	c.Helper()
	op.Scope = "s"
	before := c.s.n.Load()
	r, err := once.Do(c.Context(), c.e, op, charge(op.Key))
	must(c.T, err)
	return r.Value, r.Replayed, c.s.n.Load() != before
}

func (c caching) want(what string, op once.Operation, value string, replayed, asked bool) {
	c.Helper()
	v, r, a := c.ask(op)
	if v != value && value != "" || r != replayed || a != asked {
		c.Errorf("%s: value %q, replayed %t, asked %t; want %q, %t, %t", what, v, r, a, value, replayed, asked)
	}
}

// TestACachedReplayAsksNobody: values, failures and mismatches alike, and also while
// the store is away.
func TestACachedReplayAsksNobody(t *testing.T) {
	var seen recorder
	c := newCaching(t, once.Config{Observer: &seen})
	op := once.Operation{Scope: "s", Key: "k", Fingerprint: once.FingerprintOf([]byte("a"))}
	first, _, _ := c.ask(op)
	c.want("replay", op, first, true, false)
	if e := seen.last(t); e.Outcome != once.OutcomeReplayed || e.From != "done" || e.To != "done" || e.Effect != once.EffectApplied {
		t.Errorf("the observer is told %+v", e)
	}
	unprinted := op
	unprinted.Fingerprint = once.Fingerprint{}
	c.want("replay of who has no fingerprint", unprinted, first, true, false)

	declined := once.Operation{Scope: "s", Key: "declined"}
	no := func(_ context.Context, tx tx) (int, error) {
		return 0, errors.Join(tx.Put("n", "1"), &once.Failure{Code: "card_declined"})
	}
	for _, wantAsked := range []bool{true, false} {
		before := c.s.n.Load()
		_, err := once.Do(t.Context(), c.e, declined, no)
		if f := (*once.Failure)(nil); !errors.As(err, &f) || f.Code != "card_declined" || (c.s.n.Load() != before) != wantAsked {
			t.Errorf("%v, asked %t", err, c.s.n.Load() != before)
		}
	}

	before := c.s.n.Load()
	op.Fingerprint = once.FingerprintOf([]byte("b"))
	_, err := once.Do(t.Context(), c.e, op, charge("k"))
	if once.CodeOf(err) != once.CodeMismatch || once.EffectOf(err) != once.EffectNotApplied || c.s.n.Load() != before {
		t.Errorf("%v, asked %t", err, c.s.n.Load() != before)
	}
	wantEffects(t, c.s.Store, "k", 1)
}

// TestOnlyWhatWasCommittedHereIsCached: what was read may be a commit that still waits
// for the standby, and it is unknown here when it expires.
func TestOnlyWhatWasCommittedHereIsCached(t *testing.T) {
	for _, synced := range []bool{false, true} {
		c := newCaching(t, once.Config{Synced: synced})
		elsewhere := caching{t, c.s, once.New[tx](c.s, once.Config{Cache: mebibyte, Synced: synced})}
		first, _, _ := c.ask(once.Operation{Key: "k"})
		for range 3 {
			elsewhere.want("elsewhere", once.Operation{Key: "k"}, first, true, true)
			c.want("here", once.Operation{Key: "k"}, first, true, false)
		}
		none := caching{t, c.s, once.New[tx](c.s, once.Config{})}
		none.ask(once.Operation{Key: "none"})
		none.want("without a cache", once.Operation{Key: "none"}, "", true, true)
	}
}

// TestALostCommitIsCachedWhenItIsSettled: not before, and not while it is in doubt.
func TestALostCommitIsCachedWhenItIsSettled(t *testing.T) {
	for name, late := range map[string]bool{"applied": false, "in doubt": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &counting{Store: memstore.New()}
				lost := &spy{Store: s}
				var open store.Transaction[tx]
				lost.commit = func(ctx context.Context, txn store.Transaction[tx], c store.Change) error {
					if open = txn; !late {
						must(t, txn.Commit(ctx, c))
					}
					lost.commit = nil
					return &store.Error{Kind: store.KindLost, Err: errors.New("no answer")}
				}
				e := once.New[tx](lost, once.Config{Cache: mebibyte, Settle: time.Second})
				_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
				if late != (err != nil) || late && once.EffectOf(err) != once.EffectInDoubt {
					t.Fatal(err)
				}
				if late {
					must(t, open.Rollback(t.Context()))
				}
				before := s.n.Load()
				r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
				must(t, err)
				if r.Replayed == late || (s.n.Load() == before) == late {
					t.Errorf("replayed %t, asked %t", r.Replayed, s.n.Load() != before)
				}
				wantEffects(t, s.Store, "k", 1)
			})
		})
	}
}

// TestAJoinIsNotCached: its result is provisional, when it executes and when it finds
// what the same transaction has written before.
func TestAJoinIsNotCached(t *testing.T) {
	c := newCaching(t, once.Config{})
	op := once.Operation{Scope: "s", Key: "k"}
	user := c.s.BeginTx()
	for i := range 2 {
		r, err := once.Join(t.Context(), c.e, user, op, charge("k"))
		must(t, err)
		if r.Replayed != (i == 1) {
			t.Fatalf("join %d: %+v", i, r)
		}
	}
	user.Rollback()
	c.want("after the rollback", op, "", false, true)
	wantEffects(t, c.s.Store, "k", 1)
}

// TestACachedResultEnds with CacheFor, and long before its record does.
func TestACachedResultEnds(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    once.Config
		retain time.Duration
		life   time.Duration
	}{
		"by default":            {once.Config{}, 0, once.DefaultCacheFor},
		"CacheFor":              {once.Config{CacheFor: time.Hour}, 0, time.Hour},
		"half of the retention": {once.Config{CacheFor: time.Hour}, 10 * time.Minute, 5 * time.Minute},
		"half of the default":   {once.Config{CacheFor: time.Hour, Retain: 4 * time.Minute}, 0, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here := newCaching(t, c.cfg)
				op := once.Operation{Key: "k", Retain: c.retain}
				first, _, _ := here.ask(op)
				pass(c.life - time.Millisecond)
				here.want("before", op, first, true, false)
				pass(time.Millisecond)
				here.want("after", op, first, true, true)
			})
		})
	}
}

// TestInvalidateCacheDropsAResult: also of a result whose COMMIT is answered only afterwards.
func TestInvalidateCacheDropsAResult(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		c := newCaching(t, once.Config{HashKeys: hashed})
		first, _, _ := c.ask(once.Operation{Key: "k"})
		c.ask(once.Operation{Key: "other"})
		must(t, c.e.InvalidateCache(t.Context(), "s", "k"))
		c.want("dropped", once.Operation{Key: "k"}, first, true, true)
		c.want("another one", once.Operation{Key: "other"}, "", true, false)
	}
	s := &counting{Store: memstore.New()}
	late := &spy{Store: s}
	c := caching{t, s, once.New[tx](late, once.Config{Cache: mebibyte})}
	late.commit = func(ctx context.Context, txn store.Transaction[tx], ch store.Change) error {
		err := txn.Commit(ctx, ch)
		must(t, c.e.InvalidateCache(ctx, "s", "k")) // it is forgotten, and its caller has not been told yet that it is done
		return err
	}
	first, _, _ := c.ask(once.Operation{Key: "k"})
	c.want("dropped while it was committed", once.Operation{Key: "k"}, first, true, true)
	must(t, once.New(memstore.New(), once.Config{}).InvalidateCache(t.Context(), "s", "k")) // without a cache it does nothing
}

// TestCacheTogether: duplicates, drops and evictions at once.
func TestCacheTogether(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{Cache: 8 * 4096})
	var wg sync.WaitGroup
	var first sync.Map
	for range 8 {
		wg.Go(func() {
			for i := range 400 {
				key := strconv.Itoa(i % 97)
				r, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: key, Wait: time.Minute}, func(_ context.Context, tx tx) (string, error) {
					return once.NewKey(), tx.Insert("effect "+key, "")
				})
				if err != nil {
					t.Error(err)
					return
				}
				if v, there := first.LoadOrStore(key, r.Value); there && v != r.Value {
					t.Errorf("%s: %v and %s", key, v, r.Value)
				}
				if i%5 == 0 {
					if err := e.InvalidateCache(t.Context(), "s", key); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestInvalidCache(t *testing.T) {
	for _, cfg := range []once.Config{{Cache: -1}, {Cache: 1, CacheFor: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", cfg)
				}
			}()
			once.New(memstore.New(), cfg)
		}()
	}
}

// What was executed here is replayed from memory; forgetting it is said to the engine.
func ExampleConfig_cache() {
	engine := once.New(memstore.New(), once.Config{Cache: 64 << 20, CacheFor: time.Minute})
	op := once.Operation{Scope: "acme refunds", Key: "k1"}
	for range 2 {
		r, err := once.Do(context.Background(), engine, op, refund)
		fmt.Println(r.Value, r.Replayed, err)
	}
	_ = engine.InvalidateCache(context.Background(), op.Scope, op.Key) // operate.New(s, operate.Config{Caches: ...}) makes Forget do so
	// Output:
	// refunding
	// {re_1 1000} false <nil>
	// {re_1 1000} true <nil>
}
