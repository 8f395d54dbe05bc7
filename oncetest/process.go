package oncetest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/storetest"
)

// Process represents one process that runs the handler, from its start to its death. The handler opens its connections with the methods of Process,
// so that the test sees each write. The test can drop a write or the answer to a write, and can end the process at a write.
type Process struct {
	suite *suite
	died  chan struct{}

	mu        sync.Mutex
	plan      *plan
	dead      bool
	lines     []line
	databases []sqlplane.Database
	stores    []faulty
}

// line is an open connection of the process.
type line interface{ cut() }

// faulty is a storetest.Faults, whatever the type of its transactions is.
type faulty interface {
	Arm(p storetest.Plan)
	Heal() []storetest.Point
}

var (
	errCut  = errors.New("oncetest: injected fault: the connection is lost")
	errDead = errors.New("oncetest: injected fault: the process has crashed")
)

// Dial opens a network connection that belongs to the process. Set Dial as the dial function of drivers such as pgx and go-sql-driver/mysql, or of
// [http.Transport]. Each write to the connection counts as one write.
func (p *Process) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.isDead() {
		return nil, errDead
	}
	var d net.Dialer
	base, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: base, process: p}
	p.add(c)
	return c, nil
}

// Transport returns a transport for HTTP clients of other services. Each request counts as one write. If base is a [Provider], the test also
// counts the effects of the provider. If base is nil, [http.DefaultTransport] is used.
func (p *Process) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	if provider, ok := base.(*Provider); ok {
		p.suite.attach(provider)
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		act := p.write()
		switch act {
		case notSent:
			return nil, errCut
		case gone:
			return nil, errDead
		}
		answer, err := base.RoundTrip(r)
		if act == passes {
			return answer, err
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		if act == dies {
			p.die()
			return nil, errDead
		}
		return nil, errCut
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Store returns a store that wraps s. Pass the returned store to once.New and lease.InTx. The test makes some calls of the returned store fail, and
// refuses some SQL statements of the handler. The test counts effects in the database of s.
func Store[TX any](p *Process, s store.Store[TX]) store.Store[TX] {
	f := storetest.NewFaults(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stores = append(p.stores, f)
	if db, ok := store.As[sqlplane.Database](s); ok {
		p.databases = append(p.databases, db)
	}
	return &faultyStore[TX]{Faults: f, process: p}
}

type faultyStore[TX any] struct {
	*storetest.Faults[TX]

	process *Process
}

// Unwrap returns the wrapped store, for [store.As].
func (s *faultyStore[TX]) Unwrap() any { return s.Faults }

// Begin implements [store.Store].
func (s *faultyStore[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	opts.Refuse = s.process.refuses
	return s.Faults.Begin(ctx, opts)
}

// Join implements [store.Joiner].
func (s *faultyStore[TX]) Join(ctx context.Context, tx TX, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	opts.Refuse = s.process.refuses
	return s.Faults.Join(ctx, tx, opts)
}

// refuses is the store.BeginOptions.Refuse of the process.
func (p *Process) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan.strikes(FaultStatement)
}

// write counts a write, and returns what happens to it.
func (p *Process) write() action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return gone
	}
	if p.plan == nil {
		return passes
	}
	if act, writes := actions[p.plan.fault]; writes && p.plan.strikes(p.plan.fault) {
		return act
	}
	return passes
}

func (p *Process) add(l line) {
	p.mu.Lock()
	p.lines = append(p.lines, l)
	dead := p.dead
	p.mu.Unlock()
	if dead {
		l.cut()
	}
}

func (p *Process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// die cuts all connections. The goroutines of the process continue, but reach nothing.
func (p *Process) die() {
	p.mu.Lock()
	first := !p.dead
	p.dead = true
	lines := p.lines
	p.lines = nil
	p.mu.Unlock()
	if !first {
		return
	}
	var cut sync.WaitGroup
	for _, l := range lines { // all at the same time: the call of one connection may wait for the transaction of another
		cut.Go(l.cut)
	}
	cut.Wait()
	close(p.died)
}

// arm plans a fault at the nth call.
func (p *Process) arm(f Fault, nth int) *plan {
	armed := &plan{fault: f, nth: nth}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f == FaultStore {
		for _, s := range p.stores {
			s.Arm(storetest.Plan{Nth: []int{nth}})
		}
		return armed
	}
	p.plan = armed
	return armed
}

// disarm ends a plan. It reports whether the fault has struck, and at which point of the store.
func (p *Process) disarm(armed *plan) (struck bool, where string) {
	p.mu.Lock()
	p.plan = nil
	struck = armed.struck
	stores := p.stores
	p.mu.Unlock()
	for _, s := range stores {
		for _, point := range s.Heal() {
			struck, where = true, string(point)
		}
	}
	return struck, where
}
