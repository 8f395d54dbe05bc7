package lease_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// simProcess is one process of the service: an engine, and its way to the database, on which
// answers and commits can be lost or late. It can be stopped and go on, or die.
type simProcess struct {
	*memstore.Store // the database

	sim    *sim
	own    *dice // for heartbeats
	leases *lease.Store
	engine *once.Engine[*lease.Run]

	mu      sync.Mutex
	dead    bool
	stopped time.Time // until then
	waiting int       // how many have waited for that
	before  int       // takeovers, when it was stopped
}

var (
	_ store.Store[*memstore.Tx] = (*simProcess)(nil)
	_ store.Renewer             = (*simProcess)(nil)
	_ upkeep.Lister             = (*simProcess)(nil)
)

func (s *sim) newProcess(own *dice) *simProcess {
	p := &simProcess{Store: s.db, sim: s, own: own}
	cfg := lease.Config{TTL: simTTL, Eager: s.eager}
	if s.eager { // callers never ask, so that it is left to a Completer
		cfg.AskEvery = 1000 * time.Hour
	}
	p.leases = lease.New(p, cfg)
	p.engine = once.New(p.leases, once.Config{Observer: once.Discard, Encrypter: s.box})
	return p
}

// Unwrap says that all processes have the same database.
func (p *simProcess) Unwrap() any { return p.Store }

// fault is what becomes of a message to the database or to the provider.
type fault int

const (
	arrives     fault = iota // and so does its answer
	dies                     // before it is sent
	stops                    // before it is sent, for longer than a lease
	slow                     // it takes a while
	refused                  // it is not sent
	retries                  // it is refused: a serialization failure
	lostUndone               // it never arrives
	lostApplied              // its answer never arrives
	lostLater                // it arrives when its caller has long been answered
	diesAfter                // before the answer
	stopsAfter
)

var faultNames = []string{
	"arrives", "the process dies before", "the process stops before", "slow", "refused", "retries", "lost, undone", "lost, applied", "lost, applied later",
	"the process dies after", "the process stops after",
}

func (f fault) String() string { return faultNames[f] }

var (
	faultsOfReads  = []fault{arrives, arrives, arrives, dies, stops, slow, refused, refused, stopsAfter}
	faultsOfWrites = []fault{dies, stops, slow, refused, retries, lostUndone, lostUndone, lostApplied, lostApplied, lostApplied, lostLater, lostLater, lostLater, diesAfter, stopsAfter, stopsAfter}
)

func (p *simProcess) fault(ctx context.Context, faults []fault) (fault, time.Duration) {
	d := p.dice(ctx)
	if p.sim.isHealed() || !d.strikes() {
		return arrives, 0
	}
	f := faults[d.n(len(faults))]
	if f != arrives {
		p.sim.tellf("%v: %v", d.name, f)
	}
	return f, d.upTo(longest)
}

// dice are those of the attempt that ctx belongs to.
func (p *simProcess) dice(ctx context.Context) *dice {
	if a := attemptOf(ctx); a != nil {
		return a.dice
	}
	return p.own
}

var (
	errSim  = errors.New("simulated")
	errOver = &store.Error{Kind: store.KindUnavailable, Err: errors.New("the simulation is over")}
)

func simulated(k store.Kind) error { return &store.Error{Kind: k, Err: errSim} }

// runs waits while the process is stopped, and to the end of the simulation if it is dead. It
// is false when that is over.
func (p *simProcess) runs() bool {
	for {
		p.mu.Lock()
		dead, stop := p.dead, time.Until(p.stopped)
		if stop > 0 { // they go on one after the other, in the order in which they have stopped
			p.waiting++
			stop += time.Duration(p.waiting) * time.Microsecond
		}
		p.mu.Unlock()
		switch {
		case dead:
			<-p.sim.over.Done()
		case stop > 0:
			sleepIn(p.sim.over, stop)
			p.wake()
		}
		if p.sim.over.Err() != nil {
			return false
		}
		if !dead && stop <= 0 {
			return true
		}
	}
}

func (p *simProcess) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.sim.meet(metDeath)
}

func (p *simProcess) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *simProcess) stop(d time.Duration) {
	takeovers := p.sim.takeovers()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped, p.before = time.Now().Add(simTTL+d), takeovers
}

func (p *simProcess) wake() {
	takeovers := p.sim.takeovers()
	p.mu.Lock()
	defer p.mu.Unlock()
	if takeovers > p.before {
		p.sim.meet(metWakeUp)
		p.before = takeovers
	}
}

// message sends one message of p, and returns the answer.
func message[T any](ctx context.Context, p *simProcess, faults []fault, apply func(context.Context) (T, error)) (answer T, err error) {
	var nothing T
	if !p.runs() {
		return nothing, errOver
	}
	f, d := p.fault(ctx, faults)
	switch f {
	case dies:
		p.die()
	case stops:
		p.stop(d)
	case slow:
		sleepIn(p.sim.over, d/4)
	case refused:
		return nothing, simulated(store.KindUnavailable)
	case retries:
		return nothing, simulated(store.KindRetry)
	case lostUndone:
		return nothing, simulated(store.KindLost)
	case lostLater:
		time.AfterFunc(d, func() { _, _ = apply(context.WithoutCancel(ctx)) })
		return nothing, simulated(store.KindLost)
	}
	if !p.runs() {
		return nothing, errOver
	}
	answer, err = apply(ctx)
	switch f {
	case lostApplied:
		if err == nil {
			p.sim.meet(metLostApplied)
			answer, err = nothing, simulated(store.KindLost)
		}
	case diesAfter:
		p.die()
	case stopsAfter:
		p.stop(d)
	}
	if !p.runs() {
		return nothing, errOver
	}
	return answer, err
}

func (p *simProcess) Read(ctx context.Context, id store.ID) (store.Record, error) {
	return message(ctx, p, faultsOfReads, func(ctx context.Context) (store.Record, error) { return p.Store.Read(ctx, id) })
}

func (p *simProcess) Unfinished(ctx context.Context, page upkeep.Listing) (list []upkeep.Entry, next store.ID, err error) {
	next, err = message(ctx, p, faultsOfReads, func(ctx context.Context) (next store.ID, err error) {
		list, next, err = p.Store.Unfinished(ctx, page)
		return next, err
	})
	if err != nil {
		list = nil
	}
	return list, next, err
}

func (p *simProcess) Renew(ctx context.Context, holds []store.Hold, ttl time.Duration) ([]store.Hold, error) {
	return message(ctx, p, faultsOfReads, func(ctx context.Context) ([]store.Hold, error) { return p.Store.Renew(ctx, holds, ttl) })
}

func (p *simProcess) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	return message(ctx, p, faultsOfWrites, func(ctx context.Context) (store.Record, error) {
		return p.sim.write(&c, func() (store.Record, error) { return p.Store.Swap(ctx, c) })
	})
}

func (p *simProcess) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	claim, err := message(ctx, p, faultsOfReads, func(ctx context.Context) (store.Transaction[*memstore.Tx], error) {
		claim, _, err := p.Store.Begin(ctx, opts)
		return claim, err
	})
	if err != nil {
		return nil, store.Record{}, err
	}
	return &simTx{claim, p}, store.Record{}, nil
}

// simTx is one of a process.
type simTx struct {
	store.Transaction[*memstore.Tx]

	p *simProcess
}

func (t *simTx) Unwrap() any { return t.Transaction }

func (t *simTx) Commit(ctx context.Context, c store.Change) error {
	_, err := message(ctx, t.p, faultsOfWrites, func(ctx context.Context) (store.Record, error) {
		return t.p.sim.write(&c, func() (store.Record, error) { return store.Record{}, t.Transaction.Commit(ctx, c) })
	})
	return err
}
