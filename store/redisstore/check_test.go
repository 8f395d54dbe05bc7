package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/redisstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestCheckRefusesUnsafeServers: a server that cannot keep what the store promises is refused, and the error says why and what helps.
func TestCheckRefusesUnsafeServers(t *testing.T) {
	good := start(t, durable)
	replica := startReplica(t, good.Port(), false)
	for _, c := range []struct {
		name string
		addr string
		cfg  redisstore.Config
		want string
	}{
		{"as it should be", good.Addr(), volatile, ""},
		{"with a replica", good.Addr(), redisstore.Config{VolatileRecord: true, Replicas: 1}, ""},
		{"too few replicas", good.Addr(), redisstore.Config{VolatileRecord: true, Replicas: 2}, "has 1 replicas"},
		{"a replica", replica.Addr(), volatile, "is a replica"},
		{"no file", start(t, "").Addr(), volatile, "no append-only file"},
		{"never flushed", start(t, "appendonly yes\nappendfsync no\n").Addr(), volatile, "appendfsync no"},
		{"flushed each second", start(t, "appendonly yes\nappendfsync everysec\n").Addr(), volatile, ""},
		{"eviction", start(t, durable+"maxmemory-policy volatile-lru\n").Addr(), volatile, "evicts keys"},
		{"none", "127.0.0.1:1", volatile, "refused"},
	} {
		err := redisstore.New(clientOf(t, c.addr), c.cfg).Check(t.Context())
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || store.KindOf(err) != store.KindUnavailable) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && c.name != "none" && !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v does not say what helps", c.name, err)
		}
	}
}

// TestUnsafeServersTakeNoOperation: a program that never calls Check claims no operation on a server that Check refuses, and claims operations as soon as its settings are right.
func TestUnsafeServersTakeNoOperation(t *testing.T) {
	server := start(t, durable)
	rdb := clientOf(t, server.Addr())
	set := func(name, value string) {
		if err := rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ good, bad string }{
		"appendonly": {"yes", "no"}, "appendfsync": {"always", "no"}, "maxmemory-policy": {"noeviction", "allkeys-lru"},
	} {
		set(name, c.bad)
		office, e := newPost(true), engineOf(open(t, server.Addr()), time.Minute)
		for attempt := range 2 {
			op := operation(name)
			op.Attempt.Number = attempt
			if r, err := mail(t.Context(), e, op, office); err == nil || once.EffectOf(err) != once.EffectNotApplied || office.count() != 0 || !strings.Contains(err.Error(), "Try: "+name+" "+c.good) {
				t.Errorf("%s %s: %+v, %v; %d were sent", name, c.bad, r, err, office.count())
			}
		}
		set(name, c.good)
		if name == "appendonly" { // the server first writes the file anew
			until(t, func() bool { return field(t, rdb, "aof_rewrite_in_progress") == "0" })
		}
		if _, err := mail(t.Context(), e, operation(name), office); err != nil || office.count() != 1 {
			t.Errorf("%s %s: %v; %d were sent", name, c.good, err, office.count())
		}
	}
}

// TestCheckBeforeTheFirstClaim: a store checks its server once, before its first claim. It does not remember a server that does not answer, and works on a server that forbids the check.
func TestCheckBeforeTheFirstClaim(t *testing.T) {
	server := start(t, durable)
	rdb := clientOf(t, server.Addr())
	p := newProxy(t, server.Addr())
	claim := func(s *redisstore.Store) error {
		_, err := s.Swap(t.Context(), store.Change{ID: store.ID{Scope: "s", Key: once.NewKey()}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("n")}})
		return err
	}
	s := open(t, p.addr())
	for command, how := range map[string]fault{"info": cutBefore, "config": cutAfter, "INFO": refused, "CONFIG": refused} {
		p.setFault(func(name string) fault {
			if name == strings.ToLower(command) {
				return how
			}
			return none
		})
		if err := claim(s); store.KindOf(err) != store.KindUnavailable || p.taken()["evalsha"] != 0 {
			t.Errorf("%s fails: %v", command, err)
		}
	}
	p.setFault(nil)
	for n := range 2 {
		if err := claim(s); err != nil {
			t.Fatal(err)
		}
		if got := p.taken(); got["info"] != 1-n || got["config"] != 1-n {
			t.Errorf("claim %d: %v", n+1, got)
		}
	}
	if _, err := open(t, p.addr()).Read(t.Context(), store.ID{Scope: "s", Key: "k"}); err != nil || p.taken()["info"] != 0 {
		t.Errorf("a read checks the server: %v", err)
	}
	for _, denied := range []string{"-info", "-config|get"} {
		if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", denied).Err(); err != nil {
			t.Fatal(err)
		}
		s := open(t, p.addr())
		for n := range 2 {
			if err := claim(s); err != nil || p.taken()["info"] != 1-n {
				t.Errorf("%s: claim %d: %v", denied, n+1, err)
			}
		}
		if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewRefusesUnsafeClients: a store is not made by accident, nor on a client that sends commands again.
func TestNewRefusesUnsafeClients(t *testing.T) {
	once := func(o redis.Options) *redis.Client {
		o.Addr = "127.0.0.1:1"
		return redis.NewClient(&o)
	}
	for _, c := range []struct {
		name string
		rdb  *redis.Client
		cfg  redisstore.Config
		want string
	}{
		{"volatile", once(redis.Options{MaxRetries: -1}), volatile, ""},
		{"not said", once(redis.Options{MaxRetries: -1}), redisstore.Config{}, "Config.VolatileRecord"},
		{"retries by default", once(redis.Options{}), volatile, "MaxRetries: -1"},
		{"one retry", once(redis.Options{MaxRetries: 1}), volatile, "MaxRetries: -1"},
		{"reads too short", once(redis.Options{MaxRetries: -1, ReadTimeout: time.Second}), redisstore.Config{VolatileRecord: true, Replicas: 1}, "ReadTimeout"},
		{"no replicas", once(redis.Options{MaxRetries: -1, ReadTimeout: time.Second}), volatile, ""},
	} {
		said := func() (said string) {
			defer func() {
				if p := recover(); p != nil {
					said = fmt.Sprint(p)
				}
			}()
			redisstore.New(c.rdb, c.cfg)
			return ""
		}()
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}

// TestAStandbyIsDown: a replica is asked for nothing: it may be behind.
func TestAStandbyIsDown(t *testing.T) {
	primary := start(t, durable)
	s := open(t, startReplica(t, primary.Port(), false).Addr())
	id := store.ID{Scope: "s", Key: "k"}
	if rec, err := s.Read(t.Context(), id); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("Read: %+v, %v", rec, err)
	}
	if rec, err := s.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("n")}}); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("Swap: %+v, %v", rec, err)
	}
	if _, err := s.Renew(t.Context(), []store.Hold{{ID: id, Fence: 1, Nonce: []byte("n")}}, time.Minute); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("Renew: %v", err)
	}
	if b, err := s.Backlog(t.Context()); store.KindOf(err) != store.KindUnavailable {
		t.Errorf("Backlog: %+v, %v", b, err)
	}
}

// TestAFullServer takes no new operation, and lets those that are under way come to their end.
func TestAFullServer(t *testing.T) {
	server := start(t, durable+"maxmemory-policy noeviction\n")
	rdb, s := clientOf(t, server.Addr()), open(t, server.Addr())
	office := newPost(true)
	full := func(bytes string) {
		if err := rdb.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	e := engineOf(s, time.Minute)
	r, err := mail(t.Context(), e, operation("under way"), &post{dedupes: true, sent: office.sent})
	if err != nil {
		t.Fatal(r, err)
	}
	id := store.ID{Scope: "s", Key: "k"}
	claim := store.Change{ID: id, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("n")}}
	if _, err := s.Swap(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	full("1")
	if _, err := mail(t.Context(), e, operation("new"), office); err == nil || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Try: a larger maxmemory") {
		t.Errorf("a new operation: %v, want not applied", err)
	}
	if _, err := s.Renew(t.Context(), []store.Hold{{ID: id, Fence: 1, Nonce: []byte("n")}}, time.Minute); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	finish := store.Change{ID: id, Expect: store.Expect{Fence: 1, Nonce: []byte("n")}, Next: store.Record{State: store.StateDone, Fence: 2, Nonce: []byte("n")}}
	if _, err := s.Swap(t.Context(), finish); err != nil {
		t.Errorf("the end of one that is under way: %v", err)
	}
	if rec, err := s.Read(t.Context(), id); err != nil || rec.State != store.StateDone {
		t.Errorf("%+v, %v", rec, err)
	}
	full("0")
	if _, err := mail(t.Context(), e, operation("new"), office); err != nil {
		t.Error(err)
	}
}

// TestNothingUnfinishedExpires: only what is done ever expires by itself, its retention and an hour later.
func TestNothingUnfinishedExpires(t *testing.T) {
	server := start(t, durable)
	rdb, s := clientOf(t, server.Addr()), open(t, server.Addr())
	for _, state := range []store.State{store.StateRunning, store.StateUnknown, store.StateWaiting, store.StateDone} {
		id := store.ID{Scope: "s", Key: state.String()}
		swap := func(c store.Change) {
			c.ID, c.Lease, c.Retain = id, time.Second, time.Minute
			if _, err := s.Swap(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		swap(store.Change{Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("n")}}) // has expired, when it is begun again
		if err := rdb.HSet(t.Context(), "{once}:op:s\x00"+id.Key, "until", "1").Err(); err != nil {
			t.Fatal(err)
		}
		swap(store.Change{Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("n")}})
		if state != store.StateRunning {
			swap(store.Change{Expect: store.Expect{Fence: 1}, Next: store.Record{State: state, Fence: 2, Nonce: []byte("n")}})
		}
		left, err := rdb.PTTL(t.Context(), "{once}:op:s\x00"+id.Key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if expires := left > 0; expires != (state == store.StateDone) || expires && (left < time.Hour || left > time.Hour+time.Minute+time.Second) { // the server reads its clock twice
			t.Errorf("%s expires in %v", state, left)
		}
	}
}

// TestVolatileRecordSaysWhatItMayLose: what the store may lose is said through what stands on it.
func TestVolatileRecordSaysWhatItMayLose(t *testing.T) {
	s := redisstore.New(redis.NewClient(&redis.Options{MaxRetries: -1}), redisstore.Config{VolatileRecord: true, Replicas: 2})
	v, is := store.As[upkeep.Volatile](lease.New(s, lease.Config{}))
	if !is || !strings.Contains(v.Volatile(), "a replica other than the 2 replicas that have confirmed") {
		t.Error(is)
	}
}

// TestFencesCompareEveryDigit: a fence is compared to the last digit, which the numbers of Lua do not have.
func TestFencesCompareEveryDigit(t *testing.T) {
	s := open(t, start(t, durable).Addr())
	id := store.ID{Scope: "s", Key: "k"}
	const large = 1<<62 + 1
	running := func(fence int64) store.Record {
		return store.Record{State: store.StateRunning, Fence: fence, Nonce: []byte("n")}
	}
	if _, err := s.Swap(t.Context(), store.Change{ID: id, Next: running(large)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), store.Change{ID: id, Expect: store.Expect{Fence: large - 1}, Next: running(large)}); store.KindOf(err) != store.KindTaken {
		t.Errorf("a fence that is too low by one: %v, want Taken", err)
	}
	if _, err := s.Swap(t.Context(), store.Change{ID: id, Expect: store.Expect{Fence: large}, Next: running(large + 1)}); err != nil {
		t.Error(err)
	}
}

// TestTheIndexIsEmpty when nothing is unfinished: what is done or released is in no index, and needs no sweeper.
func TestTheIndexIsEmpty(t *testing.T) {
	server := start(t, durable)
	rdb, s := clientOf(t, server.Addr()), open(t, server.Addr())
	for _, state := range []store.State{store.StateDone, store.StateAbsent} {
		id := store.ID{Scope: "s", Key: state.String()}
		if _, err := s.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("n")}}); err != nil {
			t.Fatal(err)
		}
		if n, err := rdb.ZCard(t.Context(), "{once}:unfinished").Result(); err != nil || n != 1 {
			t.Errorf("running: %d in the index, %v", n, err)
		}
		if _, err := s.Swap(t.Context(), store.Change{ID: id, Expect: store.Expect{Fence: 1}, Next: store.Record{State: state, Fence: 2}, Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if n, err := rdb.ZCard(t.Context(), "{once}:unfinished").Result(); err != nil || n != 0 {
			t.Errorf("%s: %d in the index, %v", state, n, err)
		}
	}
}

// TestManyUnfinished: lists and counts go on behind the first five hundred.
func TestManyUnfinished(t *testing.T) {
	s := open(t, start(t, durable).Addr())
	const n = 1203
	for i := range n {
		c := store.Change{ID: store.ID{Scope: "s", Key: fmt.Sprintf("%06d", i)}, Next: store.Record{State: store.StateUnknown, Fence: 1, Nonce: []byte("n"), Name: fmt.Sprint(i % 2)}}
		if _, err := s.Swap(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.Backlog(t.Context())
	if err != nil || b.Unknown.Number != n || b.Names["1"].Unknown != n/2 {
		t.Errorf("%+v, %v", b, err)
	}
	list, next, err := s.Unfinished(t.Context(), upkeep.Listing{Limit: 1100, Name: "1"})
	if err != nil || len(list) != 550 || list[549].Key != "001099" || next.Key != "001099" {
		t.Errorf("%d listed, the next page begins behind %v, %v", len(list), next, err)
	}
}
