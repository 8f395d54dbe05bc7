package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/redisstore"
)

// post is a service that sends mails. It dedupes by key, if it is told to.
type post struct {
	dedupes bool

	mu   sync.Mutex
	sent map[string]int // by key of the call
}

func newPost(dedupes bool) *post { return &post{dedupes: dedupes, sent: map[string]int{}} }

func (p *post) send(_ context.Context, key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent[key] == 0 || !p.dedupes {
		p.sent[key]++
	}
	return "sent " + key, nil
}

func (p *post) count() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, times := range p.sent {
		n += times
	}
	return n
}

func (p *post) policy() lease.CallPolicy {
	if p.dedupes {
		return lease.CallPolicy{DedupedFor: 24 * time.Hour}
	}
	return lease.CallPolicy{}
}

func engineOf(s *redisstore.Store, ttl time.Duration) *once.Engine[*lease.Run] {
	return once.New(lease.New(s, lease.Config{TTL: ttl}), once.Config{Observer: once.Discard})
}

func operation(key string) once.Operation {
	return once.Operation{Scope: "mail", Key: key, Fingerprint: once.FingerprintOf([]byte("welcome"))}
}

// mail sends a mail under a key.
func mail(ctx context.Context, e *once.Engine[*lease.Run], op once.Operation, p *post) (once.Result[string], error) {
	return once.Do(ctx, e, op, func(ctx context.Context, run *lease.Run) (string, error) {
		return lease.Call(ctx, run, "send", p.send, p.policy())
	})
}

// advance makes all that a server keeps older.
func advance(tb testing.TB, rdb *redis.Client, d time.Duration) {
	tb.Helper()
	if err := rdb.Eval(tb.Context(), age, nil, d.Microseconds()).Err(); err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatal(err)
	}
}

// plan has the nth command fail, n = 1, 2, ..., and those after it, too, if it is an outage.
type plan struct {
	fault  fault
	nth    int
	outage bool

	mu   sync.Mutex
	seen int
}

func (p *plan) next(string) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen++; p.seen == p.nth || p.outage && p.seen > p.nth {
		return p.fault
	}
	return none
}

// met reports whether there was an nth command.
func (p *plan) met() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen >= p.nth
}

// TestEachCommandFails: whichever command of leased work fails, in whatever way, what the caller is told is true, the work is taken over, and the mail is
// sent once. A call of which nothing is said is sent once at most.
func TestEachCommandFails(t *testing.T) {
	testenv.Prove(t)
	server := start(t, durable)
	faults := map[string]fault{"cut before": cutBefore, "cut after": cutAfter, "answer cut": cutAnswer, "later": later, "refused": refused}
	var mu sync.Mutex
	told := map[string]int{}
	walk := func(t *testing.T, fault fault, dedupes, outage bool) {
		t.Helper()
		for n := 1; ; n++ {
			said, met := struck(t, server, &plan{fault: fault, nth: n, outage: outage}, dedupes)
			if !met {
				break
			}
			mu.Lock()
			told[said]++
			mu.Unlock()
		}
	}
	var all sync.WaitGroup // together: a lease settles for some seconds
	for name, fault := range faults {
		for _, dedupes := range []bool{true, false} {
			for _, outage := range []bool{false, true} {
				all.Go(func() {
					t.Run(fmt.Sprintf("%s, deduped %t, outage %t", name, dedupes, outage), func(t *testing.T) { walk(t, fault, dedupes, outage) })
				})
			}
		}
	}
	all.Wait()
	testenv.Reportf(t, "leased work on Redis, each command failing: %v", told)
	for _, said := range []string{"answered", "not applied", "in doubt"} {
		if told[said] == 0 {
			t.Errorf("vacuous: no call was %s: %v", said, told)
		}
	}
}

// struck has a mail sent under a plan, and again when the lease is over.
func struck(t *testing.T, server *testenv.Redis, p *plan, dedupes bool) (said string, met bool) {
	t.Helper()
	through := newProxy(t, server.Addr())
	rdb := clientOf(t, server.Addr())
	prefix := once.NewKey() + ":"
	cfg := redisstore.Config{VolatileRecord: true, Prefix: prefix}
	office, key := newPost(dedupes), once.NewKey()
	through.setFault(p.next)
	r, err := mail(t.Context(), engineOf(redisstore.New(clientOf(t, through.addr()), cfg), time.Minute), operation(key), office)
	through.setFault(nil)
	sent := office.count()
	switch once.EffectOf(err) {
	case once.EffectNotApplied:
		said = "not applied"
	default:
		said = "in doubt"
	}
	if err == nil {
		said = "answered"
	}
	if sent > 1 || said == "answered" && sent != 1 || said == "not applied" && sent > 0 {
		t.Errorf("command %d: %s, and %d were sent: %v", p.nth, said, sent, err)
	}
	s := redisstore.New(rdb, cfg)
	e := engineOf(s, time.Minute)
	over(t, rdb, prefix)
	again, err2 := mail(t.Context(), e, operation(key), office)
	through.release() // what was on its way
	last, err3 := mail(t.Context(), e, operation(key), office)
	sent = office.count()
	unknown := once.CodeOf(err2) == once.CodeUnknown
	switch {
	case err == nil && (err3 != nil || last.Value != r.Value || !last.Replayed):
		t.Errorf("command %d: answered %q, and then %q, %v", p.nth, r.Value, last.Value, err3)
	case !dedupes && unknown && sent <= 1: // nothing can find out
	case err2 != nil || err3 != nil || again.Value != last.Value || !last.Replayed || sent != 1:
		t.Errorf("command %d: %s; %q, %v, and then %q, %v; %d were sent", p.nth, said, again.Value, err2, last.Value, err3, sent)
	}
	return said, p.met()
}

// over ends the leases of all records under a prefix.
func over(tb testing.TB, rdb *redis.Client, prefix string) {
	tb.Helper()
	keys, err := rdb.Keys(tb.Context(), prefix+"op:*").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, key := range keys {
		if n, err := rdb.HExists(tb.Context(), key, "lease").Result(); err == nil && n {
			err = rdb.HSet(tb.Context(), key, "lease", "1").Err()
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// pipelines counts what a client sends together, and what of that has no answer.
type pipelines struct{ n, lost atomic.Int64 }

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }
func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { p.n.Add(1); return next(ctx, cmd) }
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.n.Add(1)
		err := next(ctx, cmds)
		if answer := redis.Error(nil); err != nil && !errors.As(err, &answer) {
			p.lost.Add(1)
		}
		return err
	}
}

// TestCommandsOfEachCall counts what a call under a lease sends.
func TestCommandsOfEachCall(t *testing.T) {
	server := start(t, durable)
	p := newProxy(t, server.Addr())
	rdb := clientOf(t, p.addr())
	sent := &pipelines{}
	rdb.AddHook(sent)
	s := redisstore.New(rdb, volatile)
	e := engineOf(s, time.Minute)
	office := newPost(true)
	do := func(key string, attempt int) func() error {
		return func() error {
			op := operation(key)
			op.Attempt.Number = attempt
			_, err := mail(t.Context(), e, op, office)
			return err
		}
	}
	renew := func() error {
		holds := make([]store.Hold, 250)
		for i := range holds {
			holds[i] = store.Hold{ID: store.ID{Scope: "s", Key: fmt.Sprint(i)}, Fence: 1, Nonce: []byte("n")}
		}
		_, err := s.Renew(t.Context(), holds, time.Minute)
		return err
	}
	for range 2 { // the server knows the scripts then
		for _, c := range []func() error{do(once.NewKey(), 1), do(once.NewKey(), 0), renew} {
			if err := c(); err != nil {
				t.Fatal(err)
			}
		}
	}
	replayed := once.NewKey()
	for _, c := range []struct {
		name string
		call func() error
		want int
		trip int // round trips
	}{
		{"first attempt", do(once.NewKey(), 1), 2, 2}, {"look-up", do(replayed, 0), 3, 3}, {"renewal of 250", renew, 250, 1},
	} {
		p.taken()
		sent.n.Store(0)
		if err := c.call(); err != nil {
			t.Error(c.name, err)
		}
		if got := p.taken(); len(got) != 1 || got["evalsha"] != c.want {
			t.Errorf("%s: commands %v, want %d of EVALSHA", c.name, got, c.want)
		}
		if got := sent.n.Load(); int(got) != c.trip {
			t.Errorf("%s: %d round trips, want %d", c.name, got, c.trip)
		}
	}
	other := engineOf(open(t, p.addr()), time.Minute)
	p.taken()
	r, err := mail(t.Context(), other, operation(replayed), office)
	if got := p.taken(); err != nil || !r.Replayed || len(got) != 1 || got["evalsha"] != 1 {
		t.Errorf("replay: commands %v, want one EVALSHA; %v", got, err)
	}
}

// TestScriptsAreForgotten: a server that has forgotten its scripts, as after a restart, is sent them again.
func TestScriptsAreForgotten(t *testing.T) {
	server := start(t, durable)
	p := newProxy(t, server.Addr())
	s, rdb := open(t, p.addr()), clientOf(t, server.Addr())
	office := newPost(true)
	for range 3 {
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if r, err := mail(t.Context(), engineOf(s, time.Minute), operation(once.NewKey()), office); err != nil || r.Replayed {
			t.Error(r, err)
		}
	}
	if got := p.taken(); office.count() != 3 || got["script"] < 6 {
		t.Errorf("%d were sent, with %v", office.count(), got)
	}
}
