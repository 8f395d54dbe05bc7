package once_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	enginereplay "github.com/oncelib/once/internal/engine/replay"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// memory is a SharedCache in memory.
type memory struct {
	mu           sync.Mutex
	kept         map[string]entry
	gets, adds   int
	onGet, onAdd func(context.Context) error
	failed       int // how often Replace is to fail
}

type entry struct {
	value []byte
	until time.Time
}

func newMemory() *memory { return &memory{kept: map[string]entry{}} }

func (m *memory) Get(ctx context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	m.gets++
	on := m.onGet
	m.mu.Unlock()
	if on != nil {
		if err := on(ctx); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.kept[key]; time.Now().Before(e.until) {
		return bytes.Clone(e.value), nil
	}
	return nil, nil
}

func (m *memory) Add(ctx context.Context, key string, value []byte, until time.Time) error {
	m.mu.Lock()
	m.adds++
	on := m.onAdd
	m.mu.Unlock()
	if on != nil {
		if err := on(ctx); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); !now.Before(m.kept[key].until) && now.Before(until) {
		m.kept[key] = entry{value, until}
	}
	return nil
}

func (m *memory) Replace(_ context.Context, key string, value []byte, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed > 0 {
		m.failed--
		return errDown
	}
	m.kept[key] = entry{value, until}
	return nil
}

// on has f stand before what is asked and what is added.
func (m *memory) on(get, add func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onGet, m.onAdd = get, add
}

// took returns how often the cache was asked and given something since it was called before.
func (m *memory) took() (gets, adds int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gets, adds, m.gets, m.adds = m.gets, m.adds, 0, 0
	return gets, adds
}

// only returns the one value that is kept.
func (m *memory) only(t *testing.T) (string, entry) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) != 1 {
		t.Fatalf("%d values are kept, want one", len(m.kept))
	}
	for key, e := range m.kept {
		return key, e
	}
	panic("not reached")
}

var errDown = errors.New("down")

func down(context.Context) error { return errDown }

// nodes are two processes of a service, on one database and with one shared cache.
type nodes struct {
	*testing.T
	s           *counting
	m           *memory
	here, there *once.Engine[tx]
	seen        *recorder // by there
}

// onNodes runs f in a bubble.
func onNodes(t *testing.T, cfg once.Config, f func(n nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := nodes{T: t, s: &counting{Store: memstore.New()}, m: newMemory(), seen: new(recorder)}
		cfg.Shared, cfg.Observer = n.m, n.seen
		n.here, n.there = once.New[tx](n.s, cfg), once.New[tx](n.s, cfg)
		f(n)
	})
}

// ask asks e, and returns how often the database and the cache were asked meanwhile.
func (n nodes) ask(e *once.Engine[tx], op once.Operation) (r once.Result[string], asked int64, gets int) {
	n.Helper()
	op.Scope = "s"
	before := n.s.n.Load()
	n.m.took()
	r, err := once.Do(n.Context(), e, op, charge(op.Key))
	must(n.T, err)
	synctest.Wait() // for what is added
	gets, _ = n.m.took()
	return r, n.s.n.Load() - before, gets
}

// want asks for an operation that was executed, and checks whether the database was asked.
func (n nodes) want(what string, e *once.Engine[tx], op once.Operation, value string, asked bool, gets int) {
	n.Helper()
	if r, a, g := n.ask(e, op); r.Value != value || !r.Replayed || (a > 0) != asked || g != gets {
		n.Errorf("%s: %+v, the database was asked %d times and the cache %d times; want %q, %t, %d", what, r, a, g, value, asked, gets)
	}
}

// TestSharedReplay: a node replays what another one has executed, by one look-up in the cache and none in the database; values,
// failures and mismatches alike, and also while the database is away.
func TestSharedReplay(t *testing.T) {
	for _, synced := range []bool{false, true} {
		onNodes(t, once.Config{Synced: synced}, func(n nodes) {
			t := n.T
			op := once.Operation{Scope: "s", Key: "k", Fingerprint: once.FingerprintOf([]byte("a")), Attempt: once.Attempt{Number: 1}}
			first, _, gets := n.ask(n.here, op)
			if gets != 0 {
				t.Errorf("a first attempt has asked the cache %d times", gets)
			}
			for _, number := range []int{0, 2} {
				op.Attempt.Number = number
				n.want("there", n.there, op, first.Value, false, 1)
			}
			if e := n.seen.last(t); e.Outcome != once.OutcomeReplayed || !e.Cached || e.Effect != once.EffectApplied {
				t.Errorf("the observer is told %+v", e)
			}
			before := n.s.n.Load()
			op.Fingerprint = once.FingerprintOf([]byte("b"))
			if _, err := once.Do(t.Context(), n.there, op, charge("k")); once.CodeOf(err) != once.CodeMismatch || n.s.n.Load() != before {
				t.Errorf("%v, the database was asked: %t", err, n.s.n.Load() != before)
			}

			for i, keep := range []bool{false, true} {
				declined := once.Operation{Scope: "s", Key: "declined" + first.Value[:i]}
				no := func(_ context.Context, tx tx) (int, error) {
					return 0, errors.Join(tx.Put("n", "1"), &once.Failure{Code: "card_declined", CommitWrites: keep})
				}
				_, err := once.Do(t.Context(), n.here, declined, no)
				synctest.Wait()
				before = n.s.n.Load()
				_, again := once.Do(t.Context(), n.there, declined, no)
				if f := (*once.Failure)(nil); !errors.As(again, &f) || f.Code != "card_declined" || f.CommitWrites != keep || once.EffectOf(again) != once.EffectOf(err) || n.s.n.Load() != before {
					t.Errorf("%v and then %v, asked %t", err, again, n.s.n.Load() != before)
				}
			}
			wantEffects(t, n.s.Store, "k", 1)
		})
	}
}

// TestSharedIsNotAskedInAFirstAttempt, whatever is there; and it is not asked twice in a call.
func TestSharedIsNotAskedInAFirstAttempt(t *testing.T) {
	onNodes(t, once.Config{}, func(n nodes) {
		first, _, _ := n.ask(n.here, once.Operation{Key: "k"})
		n.want("first attempt", n.there, once.Operation{Key: "k", Attempt: once.Attempt{Number: 1}}, first.Value, true, 0)
		n.want("second attempt", n.there, once.Operation{Key: "k", Attempt: once.Attempt{Number: 2}}, first.Value, false, 1)
	})
	onNodes(t, once.Config{}, func(n nodes) {
		t := n.T
		txn, _, err := n.s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}})
		must(t, err)
		go func() {
			pass(time.Second)
			_ = txn.Rollback(context.Background())
		}()
		r, asked, gets := n.ask(n.there, once.Operation{Key: "k", Wait: time.Minute})
		if r.Replayed || asked < 3 || gets != 1 {
			t.Errorf("%+v; the database was asked %d times, and the cache %d times, want 1", r, asked, gets)
		}
	})
}

// TestSharedIsAskedOnceForAFlight: one look-up for all duplicates of a node, each of which is a hit.
func TestSharedIsAskedOnceForAFlight(t *testing.T) {
	onNodes(t, once.Config{}, func(n nodes) {
		t := n.T
		first, _, _ := n.ask(n.here, once.Operation{Key: "k"})
		n.seen.take()
		all := make(chan struct{})
		n.m.on(func(context.Context) error { <-all; return nil }, nil)
		before := n.s.n.Load()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				r, err := once.Do(t.Context(), n.there, once.Operation{Scope: "s", Key: "k", Wait: time.Minute}, charge("k"))
				if err != nil || !r.Replayed || r.Value != first.Value {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		synctest.Wait()
		close(all)
		wg.Wait()
		if gets, _ := n.m.took(); gets != 1 || n.s.n.Load() != before {
			t.Errorf("the cache was asked %d times, want 1; the database %d times, want 0", gets, n.s.n.Load()-before)
		}
		hits := 0
		for _, e := range n.seen.take() {
			if e.Type == once.EventFinished && e.Cached {
				hits++
			}
		}
		if hits != 20 {
			t.Errorf("%d of 20 are told to be from a cache", hits)
		}
	})
}

// TestSharedIsBelievedOnlyOfWhatIsDone: a value that is of another state, over, damaged, of another operation or not encrypted costs
// a look-up.
func TestSharedIsBelievedOnlyOfWhatIsDone(t *testing.T) {
	encrypter, err := once.NewEncrypter(make([]byte, 32))
	must(t, err)
	forged := func(state store.State, until time.Duration) func(*testing.T, []byte) []byte {
		return func(*testing.T, []byte) []byte {
			return enginereplay.Encode(&store.Record{State: state, Result: store.Result{Body: []byte(`"forged"`)}}, time.Now().Add(until))
		}
	}
	for name, tt := range map[string]struct {
		encrypter once.Encrypter
		value     func(t *testing.T, value []byte) []byte
		hit       bool // the test would see what is believed
	}{
		"done":          {nil, forged(store.StateDone, time.Minute), true},
		"running":       {nil, forged(store.StateRunning, time.Minute), false},
		"unknown":       {nil, forged(store.StateUnknown, time.Minute), false},
		"absent":        {nil, forged(store.StateAbsent, time.Minute), false},
		"over":          {nil, forged(store.StateDone, -time.Millisecond), false},
		"damaged":       {nil, func(*testing.T, []byte) []byte { return []byte("damaged") }, false},
		"encrypted":     {encrypter, func(_ *testing.T, v []byte) []byte { return v }, true},
		"not encrypted": {encrypter, forged(store.StateDone, time.Minute), false},
		"cut":           {encrypter, func(_ *testing.T, v []byte) []byte { return v[:len(v)-1] }, false},
		"of another operation": {encrypter, func(t *testing.T, _ []byte) []byte {
			t.Helper()
			m := newMemory()
			other := once.New(memstore.New(), once.Config{Shared: m, Encrypter: encrypter})
			_, err := once.Do(t.Context(), other, once.Operation{Scope: "s", Key: "other"}, charge("k"))
			must(t, err)
			synctest.Wait()
			_, e := m.only(t)
			return e.value
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onNodes(t, once.Config{Encrypter: tt.encrypter}, func(n nodes) {
				first, _, _ := n.ask(n.here, once.Operation{Key: "k"})
				key, e := n.m.only(n.T)
				if bytes.Contains(e.value, []byte(first.Value)) != (tt.encrypter == nil) || len(key) < 40 {
					n.Errorf("%q is kept under %q", e.value, key)
				}
				must(n.T, n.m.Replace(n.Context(), key, tt.value(n.T, e.value), e.until))
				r, asked, gets := n.ask(n.there, once.Operation{Key: "k"})
				if tt.hit != (asked == 0) || gets != 1 || !r.Replayed || !tt.hit && r.Value != first.Value {
					n.Errorf("%+v, the database was asked %d times", r, asked)
				}
			})
		})
	}
}

// TestSharedIsGivenOnlyWhatWasAnswered: no commit whose answer was lost, no replay, nothing that failed, and no Join.
func TestSharedIsGivenOnlyWhatWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := &spy{Store: memstore.New()}, newMemory()
		e := once.New[tx](s, once.Config{Shared: m, Observer: once.Discard})
		other := once.New[tx](s, once.Config{Shared: m, Observer: once.Discard})
		given := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if _, adds := m.took(); adds != want {
				t.Errorf("%s: given %d times, want %d", what, adds, want)
			}
		}
		op := once.Operation{Scope: "s", Key: "lost"}
		s.commit = func(ctx context.Context, txn store.Transaction[tx], c store.Change) error {
			must(t, txn.Commit(ctx, c))
			s.commit = nil
			return &store.Error{Kind: store.KindLost, Err: errors.New("no answer")}
		}
		r, err := once.Do(t.Context(), e, op, charge("lost"))
		if err != nil || r.Replayed {
			t.Fatalf("%+v, %v", r, err)
		}
		given("a commit that was settled", 0)
		_, err = once.Do(t.Context(), other, op, charge("lost"))
		must(t, err)
		given("a replay", 0)
		_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "failed"}, func(context.Context, tx) (int, error) { return 0, errDown })
		if err == nil {
			t.Error("no error")
		}
		given("a failure", 0)
		_, _, err = e.Exec(t.Context(), once.Operation{}, func(context.Context, tx) (once.Answer, error) { return once.Answer{}, nil })
		must(t, err)
		given("work without a key", 0)
		mem, _ := s.Store.(*memstore.Store)
		user := mem.BeginTx()
		_, err = once.Join(t.Context(), e, user, once.Operation{Scope: "s", Key: "joined"}, charge("joined"))
		must(t, err)
		user.Rollback()
		given("a join", 0)
		_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "done"}, charge("done"))
		must(t, err)
		given("a commit that was answered", 1)
		large := func(context.Context, tx) (string, error) { return strings.Repeat("x", 1<<20), nil }
		_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "large"}, large)
		must(t, err)
		given("a large result", 0)
	})
}

// TestSharedResultEnds with CacheFor, and long before its record does.
func TestSharedResultEnds(t *testing.T) {
	onNodes(t, once.Config{CacheFor: time.Hour}, func(n nodes) {
		op := once.Operation{Key: "k", Retain: 10 * time.Minute}
		first, _, _ := n.ask(n.here, op)
		pass(5*time.Minute - time.Millisecond)
		n.want("before", n.there, op, first.Value, false, 1)
		pass(time.Millisecond)
		n.want("after", n.there, op, first.Value, true, 1)
	})
}

// TestSharedForgets: what is forgotten on one node is not replayed on another one, also if it is on its way to the cache.
func TestSharedForgets(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		onNodes(t, once.Config{HashKeys: hashed}, func(n nodes) {
			t := n.T
			first, _, _ := n.ask(n.here, once.Operation{Key: "k"})
			n.want("there", n.there, once.Operation{Key: "k"}, first.Value, false, 1)
			must(t, n.there.InvalidateCache(t.Context(), "s", "k"))
			n.want("forgotten", n.there, once.Operation{Key: "k"}, first.Value, true, 1)

			arrive := make(chan struct{})
			n.m.on(nil, func(context.Context) error { <-arrive; return nil })
			first, err := once.Do(t.Context(), n.here, once.Operation{Scope: "s", Key: "late"}, charge("late"))
			must(t, err)
			synctest.Wait()
			must(t, n.there.InvalidateCache(t.Context(), "s", "late"))
			close(arrive)
			synctest.Wait()
			n.want("forgotten while it was on its way", n.there, once.Operation{Key: "late"}, first.Value, true, 1)
			n.m.on(nil, nil)
			pass(once.DefaultCacheFor)
			n.want("later", n.there, once.Operation{Key: "late"}, first.Value, true, 1)
		})
	}
	onNodes(t, once.Config{}, func(n nodes) {
		t := n.T
		n.m.failed = 1
		if err := n.here.InvalidateCache(t.Context(), "s", "k"); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "Try:") {
			t.Errorf("a cache that is down: %v", err)
		}
		must(t, n.here.InvalidateCache(t.Context(), "s", "k"))
	})
}

// TestSharedThatFails costs look-ups, a bounded time, and no effect: after five failures in a row none for a second, and
// then one tries.
func TestSharedThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		how  func(ctx context.Context, over chan struct{}) error
		took time.Duration
	}{
		"refused":          {func(context.Context, chan struct{}) error { return errDown }, 0},
		"hung":             {func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }, 100 * time.Millisecond},
		"hung, and deaf":   {func(_ context.Context, over chan struct{}) error { <-over; return nil }, 100 * time.Millisecond},
		"one in four hang": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onNodes(t, once.Config{}, func(n nodes) {
				over, calls := make(chan struct{}), 0
				defer close(over)
				fail := func(ctx context.Context) error { return tt.how(ctx, over) }
				if tt.how == nil {
					fail = func(context.Context) error {
						if calls++; calls%4 == 0 {
							return errDown
						}
						return nil
					}
				}
				first, _, _ := n.ask(n.here, once.Operation{Key: "k"})
				n.m.on(fail, nil)
				op := once.Operation{Key: "k"}
				for i := range 40 {
					began := time.Now()
					r, asked, gets := n.ask(n.there, op)
					took := time.Since(began)
					switch {
					case r.Value != first.Value || !r.Replayed:
						n.Errorf("%+v", r)
					case tt.how == nil && (gets != 1 || (asked > 0) != (i%4 == 3)):
						n.Errorf("call %d: the cache was asked %d times, and the database %d times", i, gets, asked)
					case tt.how == nil:
					case i < 5 && (took != tt.took || gets != 1), i >= 5 && (took != 0 || gets != 0), asked == 0:
						n.Errorf("call %d took %v, the cache was asked %d times, the database %d times", i, took, gets, asked)
					}
				}
				if tt.how == nil {
					return
				}
				pass(time.Second)
				n.want("the one that tries", n.there, op, first.Value, true, 1)
				n.want("the next one", n.there, op, first.Value, true, 0)
				n.m.on(nil, nil)
				pass(time.Second)
				n.want("when it is back", n.there, op, first.Value, false, 1)
				n.want("and then", n.there, op, first.Value, false, 1)
			})
		})
	}
}

// TestSharedLeavesTimeForTheDatabase: a cache that hangs uses half of what a caller has.
func TestSharedLeavesTimeForTheDatabase(t *testing.T) {
	onNodes(t, once.Config{}, func(n nodes) {
		n.m.on(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil)
		ctx, cancel := context.WithTimeout(n.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		r, err := once.Do(ctx, n.there, once.Operation{Scope: "s", Key: "k"}, charge("k"))
		if took := time.Since(began); err != nil || r.Replayed || took != 10*time.Millisecond {
			n.Errorf("%+v, %v after %v", r, err, took)
		}
	})
}

// TestSharedQueueIsBounded: a cache that takes nothing makes no call wait, and results that wait for it take no more than some memory.
func TestSharedQueueIsBounded(t *testing.T) {
	onNodes(t, once.Config{}, func(n nodes) {
		over := make(chan struct{})
		n.m.on(nil, func(context.Context) error { <-over; return nil })
		body := strings.Repeat("x", 100<<10)
		for i := range 200 {
			began := time.Now()
			_, err := once.Do(n.Context(), n.here, once.Operation{Scope: "s", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(context.Context, tx) (string, error) { return body, nil })
			if err != nil || time.Since(began) > 0 {
				n.Fatalf("call %d took %v: %v", i, time.Since(began), err)
			}
		}
		values, err := n.here.Gauges(n.Context())
		must(n.T, err)
		if skipped := numberOf(n.T, values, gaugename.SharedCacheSkipped); skipped < 100 {
			n.Errorf("%v of 200 results of 100 KiB are skipped: the others wait in memory", skipped)
		}
		close(over)
	})
}

func numberOf(t *testing.T, values []gauge.Value, name string) float64 {
	t.Helper()
	for _, v := range values {
		if v.Name == name {
			return v.Number
		}
	}
	t.Fatalf("no %s in %+v", name, values)
	return 0
}

// TestSharedGauges: each look-up is a hit, a miss or skipped, and what fails is an error.
func TestSharedGauges(t *testing.T) {
	onNodes(t, once.Config{}, func(n nodes) {
		n.ask(n.there, once.Operation{Key: "k"}) // a miss
		for range 2 {
			n.ask(n.there, once.Operation{Key: "k"})
		}
		n.m.on(down, down)
		for range 7 {
			n.ask(n.there, once.Operation{Key: "k"})
		}
		n.ask(n.there, once.Operation{Key: "other", Attempt: once.Attempt{Number: 1}})
		values, err := n.there.Gauges(n.Context())
		must(n.T, err)
		for name, want := range map[string]float64{
			gaugename.SharedCacheHits: 2, gaugename.SharedCacheMisses: 1, gaugename.SharedCacheErrors: 5, gaugename.SharedCacheSkipped: 3,
		} {
			if got := numberOf(n.T, values, name); got != want {
				n.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}
