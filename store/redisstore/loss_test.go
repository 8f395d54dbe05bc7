package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/redisstore"
)

// mails is how many are sent before a server loses them.
const mails = 30

// welcome sends mails, and returns the keys of those that were answered.
func welcome(t *testing.T, s *redisstore.Store, office *post) (answered []string) {
	t.Helper()
	e := engineOf(s, time.Second)
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range mails {
		all.Go(func() {
			key := fmt.Sprint("welcome ", i)
			if _, err := mail(t.Context(), e, operation(key), office); err == nil {
				mu.Lock()
				answered = append(answered, key)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answered
}

// again asks for all mails once more, as clients do that have got no answer, and returns how many were forgotten.
func again(t *testing.T, s *redisstore.Store, office *post, answered []string) (forgotten int) {
	t.Helper()
	before := office.count()
	e := engineOf(s, time.Second)
	for _, key := range answered {
		if r, err := mail(t.Context(), e, operation(key), office); err != nil {
			t.Error(err)
		} else if !r.Replayed {
			forgotten++
		}
	}
	if sent := office.count() - before; sent != forgotten {
		t.Errorf("%d forgotten, and %d sent again", forgotten, sent)
	}
	return forgotten
}

// behind is a primary with two replicas, one of which can be cut off.
type behind struct {
	primary, follows, cut *testenv.Redis
	link                  *faultnet.Proxy
}

func newBehind(t *testing.T) behind {
	t.Helper()
	primary := start(t, durable)
	link, err := faultnet.Listen(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	_, port, _ := strings.Cut(link.Addr(), ":")
	var n int
	if _, err := fmt.Sscan(port, &n); err != nil {
		t.Fatal(err)
	}
	b := behind{primary: primary, link: link}
	b.follows, b.cut = startReplica(t, primary.Port(), false), startReplica(t, n, false)
	return b
}

func (b behind) cutOff() {
	b.link.SetUpstream("127.0.0.1:1")
	b.link.CutAll()
}

// promote crashes the primary, and makes a replica the new one.
func (b behind) promote(t *testing.T, r *testenv.Redis) *redis.Client {
	t.Helper()
	if err := b.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	rdb := clientOf(t, r.Addr())
	if err := rdb.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	return rdb
}

// accepted returns a store that has checked its server. Settings that change afterwards are not noticed.
func accepted(t *testing.T, server *testenv.Redis) *redisstore.Store {
	t.Helper()
	s := open(t, server.Addr())
	if _, err := mail(t.Context(), engineOf(s, time.Minute), operation("the first"), newPost(true)); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatRedisLoses: each of the events of which the documentation warns makes the store forget what it has answered. If one of them did not, the
// warning would be vacuous.
func TestWhatRedisLoses(t *testing.T) {
	testenv.Prove(t)
	two := redisstore.Config{VolatileRecord: true, Replicas: 1}
	for _, c := range []struct {
		name  string
		loses bool
		run   func(t *testing.T, office *post) (answered []string, then *redisstore.Store)
	}{
		{"failover to a replica that was cut off", true, func(t *testing.T, office *post) ([]string, *redisstore.Store) {
			b := newBehind(t)
			b.cutOff()
			answered := welcome(t, open(t, b.primary.Addr()), office)
			return answered, redisstore.New(b.promote(t, b.cut), volatile)
		}},
		{"failover to a replica that has confirmed nothing, beside one that has", true, func(t *testing.T, office *post) ([]string, *redisstore.Store) {
			b := newBehind(t)
			b.cutOff()
			answered := welcome(t, redisstore.New(clientOf(t, b.primary.Addr()), two), office)
			return answered, redisstore.New(b.promote(t, b.cut), volatile)
		}},
		{"failover to the replica that has confirmed", false, func(t *testing.T, office *post) ([]string, *redisstore.Store) {
			b := newBehind(t)
			b.cutOff()
			answered := welcome(t, redisstore.New(clientOf(t, b.primary.Addr()), two), office)
			return answered, redisstore.New(b.promote(t, b.follows), volatile)
		}},
		{"restart without a file", true, func(t *testing.T, office *post) ([]string, *redisstore.Store) {
			server := start(t, durable)
			s := accepted(t, server)
			if err := clientOf(t, server.Addr()).ConfigSet(t.Context(), "appendonly", "no").Err(); err != nil {
				t.Fatal(err)
			}
			answered := welcome(t, s, office)
			restart(t, server)
			return answered, open(t, server.Addr())
		}},
		{"eviction by foreign keys", true, func(t *testing.T, office *post) ([]string, *redisstore.Store) {
			server := start(t, "appendonly yes\nmaxmemory 6mb\n")
			s, rdb := accepted(t, server), clientOf(t, server.Addr())
			if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
				t.Fatal(err)
			}
			answered := welcome(t, s, office)
			for i := 0; field(t, rdb, "evicted_keys") == "0" || i%100 != 0 || i < 10_000; i++ {
				if err := rdb.Set(t.Context(), fmt.Sprint("foreign ", i), strings.Repeat("x", 1000), 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			return answered, s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			office := newPost(false)
			answered, then := c.run(t, office)
			forgotten := again(t, then, office, answered)
			testenv.Reportf(t, "%s: %d of %d answered mails were sent again", c.name, forgotten, len(answered))
			if len(answered) != mails || c.loses != (forgotten > 0) {
				t.Errorf("%d of %d were answered, and %d of them forgotten", len(answered), mails, forgotten)
			}
		})
	}
}

func restart(t *testing.T, server *testenv.Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestKilledServer: with appendfsync always, a server that is killed again and again while calls are under way loses none that it has answered. With everysec it may lose some,
// if its disk is busy; the test counts them.
func TestKilledServer(t *testing.T) {
	testenv.Core(t)
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			server := start(t, "appendonly yes\nappendfsync "+fsync+"\n")
			rdb, sent := clientOf(t, server.Addr()), &pipelines{}
			rdb.AddHook(sent)
			s := redisstore.New(rdb, volatile)
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			office := newPost(true)
			answers := map[string]string{}
			var mu sync.Mutex
			var up sync.RWMutex // is locked while the server is down
			ctx, stop := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			for i := range 4 {
				clients.Go(func() {
					e := engineOf(s, time.Second)
					for n := 0; ctx.Err() == nil; n++ {
						key := fmt.Sprint(i, " ", n)
						r, err := mail(t.Context(), e, operation(key), office)
						if err != nil {
							up.RLock()
							up.RUnlock() //nolint:staticcheck // it waits for the server
							continue
						}
						mu.Lock()
						answers[key] = r.Value
						mu.Unlock()
					}
				})
			}
			told := func() int { mu.Lock(); defer mu.Unlock(); return len(answers) }
			for range 3 {
				before := told()
				until(t, func() bool { return told() > before+25 })
				up.Lock()
				restart(t, server)
				up.Unlock()
			}
			stop()
			clients.Wait()
			e, forgotten := engineOf(s, time.Minute), 0
			for key, answer := range answers {
				op := operation(key)
				op.Wait = time.Minute // for the lease of a record of which only the end was lost
				r, err := mail(t.Context(), e, op, office)
				if err == nil && !r.Replayed && fsync == "everysec" {
					forgotten++
				} else if err != nil || !r.Replayed || r.Value != answer {
					t.Errorf("%s: %+v, %v, want a replay of %q", key, r, err, answer)
				}
			}
			testenv.Reportf(t, "appendfsync %s: 3 kills, %d of %d answers kept, %d commands without an answer", fsync, len(answers)-forgotten, len(answers), sent.lost.Load())
			if sent.lost.Load() == 0 {
				t.Error("vacuous: all commands were answered")
			}
			for key, n := range office.sent {
				if n != 1 {
					t.Errorf("%s was sent %d times", key, n)
				}
			}
		})
	}
}

// TestReplicasMustConfirm: while the replica does not confirm, nothing is answered: no write, no replay, and no call is made. When it goes on, the same key tells.
func TestReplicasMustConfirm(t *testing.T) {
	testenv.Prove(t)
	for name, valkey := range map[string]bool{"redis-server": false, "valkey-server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a lease settles for some seconds
			testenv.Need(t, name)
			primary := startOf(t, testenv.RedisConfig{Lines: durable, Valkey: valkey})
			replica := startReplica(t, primary.Port(), valkey)
			cfg := redisstore.Config{VolatileRecord: true, Replicas: 1}
			office := newPost(true)
			call := func(cfg redisstore.Config, key string) (once.Result[string], error) { // in a process that has seen nothing
				return mail(t.Context(), engineOf(redisstore.New(clientOf(t, primary.Addr()), cfg), time.Minute), operation(key), office)
			}
			before, err := call(cfg, "before")
			if err != nil {
				t.Fatal(err)
			}
			if err := replica.Freeze(); err != nil { // its connection stays open
				t.Fatal(err)
			}
			if _, err := call(volatile, "alone"); err != nil { // only the primary has it
				t.Fatal(err)
			}
			sent := office.count()
			if r, err := call(cfg, "alone"); once.CodeOf(err) != once.CodeUnavailable {
				t.Errorf("a replay of what only the primary has: %+v, %v, want unavailable", r, err)
			}
			if r, err := call(cfg, "fresh"); err == nil || office.count() != sent {
				t.Errorf("a fresh call: %+v, %v, and %d were sent", r, err, office.count()-sent)
			}
			s, id := redisstore.New(clientOf(t, primary.Addr()), cfg), store.ID{Scope: "s", Key: "k"}
			claim := store.Change{ID: id, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("n")}}
			if _, err := s.Swap(t.Context(), claim); store.KindOf(err) != store.KindLost {
				t.Errorf("a claim: %v, want lost", err)
			}
			if _, err := redisstore.New(clientOf(t, primary.Addr()), cfg).Swap(t.Context(), claim); store.KindOf(err) != store.KindUnavailable {
				t.Errorf("the same claim again: %v, want unavailable", err)
			}
			if _, err := s.Renew(t.Context(), []store.Hold{{ID: id, Fence: 1, Nonce: []byte("n")}}, time.Minute); store.KindOf(err) != store.KindUnavailable {
				t.Errorf("a renewal: %v, want unavailable", err)
			}
			if err := replica.Thaw(); err != nil {
				t.Fatal(err)
			}
			rdb := clientOf(t, primary.Addr())
			until(t, func() bool { return s.Check(t.Context()) == nil })
			over(t, rdb, redisstore.DefaultPrefix)
			for _, key := range []string{"before", "alone", "fresh"} {
				if _, err := call(cfg, key); err != nil {
					t.Errorf("%s, when the replica goes on: %v", key, err)
				}
			}
			if r, err := call(cfg, "before"); err != nil || r.Value != before.Value || office.count() != 3 {
				t.Errorf("%+v, %v, want %q; %d were sent", r, err, before.Value, office.count())
			}
		})
	}
}
