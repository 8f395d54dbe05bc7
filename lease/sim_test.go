package lease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

const (
	simTTL  = 10 * time.Second
	longest = 3 * simTTL // that a message takes, and that a stopped process is stopped after its leases are over

	// keyLife is how long a provider of [dedupedFor] knows a key. A tenth of it is more than a process is stopped
	// between its look at the time and the call, and the call on its way.
	keyLife = 200 * simTTL
)

// sim is one schedule: a few callers ask some processes for one operation, while messages get lost or late, and processes die or
// are stopped. A seed chooses all of that. The time is virtual.
type sim struct {
	t        *testing.T
	met      *tally
	db       *memstore.Store
	box      once.Encrypter
	over     context.Context //nolint:containedctx // of all of it
	steps    []*step
	eager    bool
	complete bool // each process has a Completer
	patient  bool // callers come again when providers have forgotten
	declined int  // the index of the call that its provider declines; behind the steps if there is none
	seed     uint64
	begun    sync.WaitGroup

	small sync.Mutex // for the story
	story []string

	mu        sync.Mutex // for the rest
	processes []*simProcess
	healed    bool
	provider  *simProvider
	numbers   int
	runs      []*run
	attempts  []*attempt
	intents   []int // of calls, by step: how often one was stored
	lease     time.Duration
	taken     int    // takeovers
	result    string // what a caller was told
	resolved  bool   // a person has said that calls can be made again
	given     bool   // or what the result is
}

// dice are the luck of a caller, of one of its attempts, or of a process.
type dice struct {
	name     string
	rate     float64
	mu       sync.Mutex
	r        *rand.Rand
	children int
}

// child returns dice for something that d begins. What others begin meanwhile does not change them.
func (d *dice) child() *dice {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.children++
	return &dice{name: fmt.Sprintf("%s.%d", d.name, d.children), rate: d.rate, r: rand.New(rand.NewPCG(d.r.Uint64(), d.r.Uint64()))}
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) strikes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64() < d.rate
}

// upTo returns a time up to longest; short ones are as likely as long ones.
func (d *dice) upTo(longest time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 1 + time.Duration(d.r.Int64N(int64(longest>>d.r.IntN(14))))
}

func sleepIn(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// schedule runs the one of a seed.
func schedule(t *testing.T, seed uint64, box once.Encrypter, met *tally, tells bool) {
	over, end := context.WithCancel(context.Background())
	s := &sim{t: t, met: met, db: memstore.New(), box: box, over: over, seed: seed}
	s.provider = &simProvider{sim: s, effects: map[string][]effect{}, tombstones: map[string]bool{}, sends: map[string]int{}, requests: map[string]string{}}
	d := &dice{name: "0", r: rand.New(rand.NewPCG(seed, 0))}
	d.rate = []float64{0.05, 0.1, 0.2, 0.3}[d.n(4)]
	s.eager, s.complete, s.patient = d.n(4) == 0, d.n(2) == 0, d.n(5) == 0
	for _, name := range []string{"reserve", "charge", "book", "mail", "close"} {
		st := &step{name: name, isCall: name == "charge" || name == "mail", policy: policy(d.n(int(policies)))}
		s.steps = append(s.steps, st)
	}
	d.r.Shuffle(len(s.steps), func(i, j int) { s.steps[i], s.steps[j] = s.steps[j], s.steps[i] })
	for i, st := range s.steps {
		st.index = i
		s.tellf("step %+v", *st)
	}
	s.intents, s.declined = make([]int, len(s.steps)), len(s.steps)
	if i := d.n(4 * len(s.steps)); i < len(s.steps) && s.steps[i].isCall {
		s.declined = i
	}
	for range 2 + d.n(2) {
		s.processes = append(s.processes, s.start(d, s.complete))
	}
	var callers sync.WaitGroup
	for range 1 + d.n(3) {
		own := d.child()
		callers.Go(func() { s.caller(own) })
	}
	callers.Wait()
	s.finish(d)
	end()
	s.begun.Wait()
	if t.Failed() || tells {
		t.Logf("seed %d:\n%s", seed, strings.Join(s.story, "\n"))
	}
	<-time.After(10 * simTTL) // heartbeats end
}

// start starts a process.
func (s *sim) start(d *dice, complete bool) *simProcess {
	p := s.newProcess(d.child())
	if complete {
		c := lease.Completer{
			Store: p.leases, Encrypter: s.box, Every: simTTL, CheckEvery: 2 * simTTL, Log: slog.New(slog.DiscardHandler),
			Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error { return s.do(ctx, p, op, p.own).err }},
		}
		s.begun.Go(func() {
			if err := c.Run(s.over); err != nil {
				s.failf("Completer: %v", err)
			}
		})
	}
	return p
}

var simOp = once.Operation{Scope: op.Scope, Key: op.Key, Fingerprint: op.Fingerprint, Request: []byte("what was asked")}

// caller asks until it is told a result, or gives up.
func (s *sim) caller(d *dice) {
	op := simOp
	if d.n(3) == 0 {
		op.Attempt.Number = 1
	}
	for range 2 + d.n(4) {
		sleepIn(s.over, d.upTo(longest))
		answered := s.ask(s.process(d, d.n(2)), op, d)
		op.Attempt.Number = 0
		select {
		case a := <-answered:
			if a.err == nil {
				return
			}
		case <-time.After(d.upTo(longest)):
		}
		if s.patient && d.n(3) == 0 {
			sleepIn(s.over, keyLife)
		}
	}
}

// ask asks p. The caller's connection may break meanwhile.
func (s *sim) ask(p *simProcess, op once.Operation, d *dice) <-chan *attempt {
	ctx, cancel := context.WithCancel(s.over)
	if d.n(4) == 0 {
		time.AfterFunc(d.upTo(longest), cancel)
	}
	answered, own := make(chan *attempt, 1), d.child()
	s.begun.Go(func() {
		defer cancel()
		answered <- s.do(ctx, p, op, own)
	})
	return answered
}

// process returns one that lives: a dead one is started again.
func (s *sim) process(d *dice, i int) *simProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes[i].isDead() {
		s.processes[i] = s.start(d, s.complete)
	}
	return s.processes[i]
}

// finish ends the faults. Callers come again, and people do what they must: the operation comes to its end, and
// stays there.
func (s *sim) finish(d *dice) {
	s.mu.Lock()
	s.healed = true
	s.mu.Unlock()
	soon := d.n(2) == 0
	if !soon {
		sleepIn(s.over, 3*longest) // all that is late has come
	}
	const enough = 40
	for n := 0; ; n++ {
		a := s.do(s.over, s.start(d, false), simOp, d)
		if a.err == nil {
			break
		}
		if n == enough {
			s.failf("it does not come to its end: %v", a.err)
			return
		}
		if once.CodeOf(a.err) == once.CodeUnknown && n > enough/4 {
			s.unknown(d)
		}
		sleepIn(s.over, simTTL)
	}
	sleepIn(s.over, 3*longest)
	for i := range s.processes {
		if a := s.do(s.over, s.process(d, i), simOp, d); a.err != nil {
			s.failf("asked in the end: %v", a.err)
		}
	}
	s.judgeEnd()
}

// unknown ends that the outcome is unknown: a Completer does it, where a provider can tell, or else a person.
func (s *sim) unknown(d *dice) {
	rec, err := s.db.Read(s.over, id)
	if err != nil || rec.State != store.StateUnknown {
		return
	}
	st := s.pending(rec)
	happened := len(s.effects(st)) > 0
	switch {
	case st.policy == safeToRepeat:
		s.failf("call %s can be made again, and its outcome is unknown", st.name)
		return
	case st.policy.checks() && (happened || st.policy != askedOnly):
		s.meet(metReconciled)
		s.start(d, true)
		return
	}
	sleepIn(s.over, 3*longest) // a person takes the time
	how := lease.Resolution{RunAgain: true}
	switch {
	case happened:
		how = lease.Resolution{Result: json.RawMessage(`"resolved"`)}
		s.mu.Lock()
		s.given = true
		s.mu.Unlock()
	case d.n(2) == 0:
		how.KeyVoided = true
		s.entomb(st)
	default: // all that was sent has come, so that nothing can come twice
		s.mu.Lock()
		s.resolved = true
		s.mu.Unlock()
	}
	s.meet(metResolved)
	p, err := lease.ProgressOf(id, rec)
	if err != nil {
		s.failf("%v", err)
	}
	how.CallID = p.CallID
	for range 2 { // as a person who has got no answer
		if err := lease.Resolve(s.over, s.db, id, how); err != nil {
			s.failf("Resolve: %v", err)
		}
	}
}
