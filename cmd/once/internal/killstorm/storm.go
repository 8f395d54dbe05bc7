package killstorm

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a storm. Every field but Log and Progress is required.
type Config struct {
	Orders  int    // wanted refunds
	Clients int    // that work at the same time, in the processes of Fleet
	Kills   int    // of the service
	Seed    uint64 // of the faults
	Tenant  string // unique for this storm in the database
	Unsafe  bool   // the service runs without once, so answers need not be repeated

	ClientKills int // of the processes of Fleet

	// Metrics is the address of the service's /metrics, which is compared with the database. "" means that it is not.
	Metrics string

	Server  *Server
	Fleet   *Fleet
	Witness Witness

	Log      *Log
	Progress func(Progress) // called often, by several goroutines
}

// Progress is the progress of a storm.
type Progress struct {
	Finished, Orders int
	Killed, Kills    int // of the service and of clients
	Sent, Dropped    int
	Stage            string

	What      string // the objects that clients want; "" means refunds
	Events    bool   // a storm over events, which counts delivered events
	Delivered int
}

// Storm is one run.
type Storm struct {
	Config
	log    *Log
	tally  *tally
	orders []*order
	kills  []int
	open   int          // open intents at the end
	stage  atomic.Value // string

	reached *meter // the highest number of an order of which a request was sent
	sent    *meter // sent requests
	done    *meter // completed kills

	instruments *instruments // nil if the metrics are not compared
}

// Run runs a storm to its end, kills the last server and asks the witness. Its error means that the storm has no result, not that the result is bad.
func Run(ctx context.Context, cfg Config) (Report, error) {
	s := &Storm{
		Config:  cfg,
		log:     cfg.Log,
		tally:   newTally(),
		orders:  plan(cfg.Orders, cfg.Seed),
		kills:   planKills(cfg.Kills, cfg.Orders, cfg.Seed),
		reached: newMeter(),
		sent:    newMeter(),
		done:    newMeter(),
	}
	if cfg.Metrics != "" {
		s.instruments = &instruments{address: cfg.Metrics}
	}
	for _, at := range planKills(cfg.ClientKills, cfg.Orders, cfg.Seed+1) {
		s.orders[at].crashes++
	}
	began := time.Now()
	err := s.rage(ctx)
	if end := s.Server.kill(); err == nil {
		err = end
	}
	if err != nil {
		return Report{}, err
	}
	s.enter("counting")
	found, err := s.Witness.count(ctx, cfg.Tenant)
	if err != nil {
		return Report{}, fmt.Errorf("the check of the database has failed: %w", err)
	}
	return s.report(found, time.Since(began)), nil
}

// rage runs the part of the storm in which the server lives.
func (s *Storm) rage(ctx context.Context) error {
	s.enter("starting")
	if err := s.Server.start(ctx); err != nil {
		return err
	}
	if err := s.charge(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.Fleet.stop()
	if err := s.Fleet.start(ctx, s, cancel); err != nil {
		return err
	}
	s.enter("storm")
	var killer sync.WaitGroup
	killer.Go(func() {
		if err := s.killAll(ctx); err != nil {
			cancel(err)
		}
	})
	s.each(ctx, func(o *order) { s.serve(ctx, o) })
	s.encore(ctx, len(s.orders)-1, s.Kills)
	killer.Wait()
	if !s.Unsafe && ctx.Err() == nil {
		s.enter("replaying")
		if err := s.replayAll(ctx); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var err error
	s.open, err = s.Fleet.end()
	return err
}

// charge makes the charges that the refunds need, without faults.
func (s *Storm) charge(ctx context.Context) error {
	var ids [charges]string
	w := wire{address: s.Server.address, tenant: s.Tenant}
	for i := range ids {
		body := fmt.Sprintf(`{"amount":%d,"currency":"EUR","customer":"storm"}`, chargeAmount)
		a, err := w.post(ctx, chargesPath, fmt.Sprintf("charge:%d", i+1), body, 1, deliver)
		if err != nil {
			return err
		}
		if ids[i] = resultID(a); ids[i] == "" {
			return fmt.Errorf("the service made no charge, and answered with status %d and the body %s", a.status, a.body)
		}
	}
	for _, o := range s.orders {
		o.charge = ids[o.index%charges]
	}
	return nil
}

// each lets the clients work on every order. An order waits until its share of the kills has happened: otherwise the storm would end before the
// last kill.
func (s *Storm) each(ctx context.Context, work func(*order)) {
	next := make(chan *order)
	var clients sync.WaitGroup
	for range s.Clients {
		clients.Go(func() {
			for o := range next {
				work(o)
			}
		})
	}
	for i, o := range s.orders {
		s.encore(ctx, max(0, i-1), i*s.Kills/s.Orders)
		if ctx.Err() != nil {
			break
		}
		next <- o
	}
	close(next)
	clients.Wait()
}

// encore waits until the kills are done. A kill needs requests, so the order at index is requested again and again meanwhile.
func (s *Storm) encore(ctx context.Context, index, kills int) {
	const stalled = 500 * time.Millisecond
	for sender := 1 << 5; !s.done.wait(ctx, kills, stalled) && ctx.Err() == nil; sender++ {
		s.ask(ctx, s.orders[index], sender, false, s.orders[index].body(), "encore")
	}
}

// serve requests one order until it is done, through all faults of the plan.
func (s *Storm) serve(ctx context.Context, o *order) {
	defer s.progress()
	defer s.tally.finished()
	s.instruments.begin()
	var copies sync.WaitGroup
	for i := range o.copies {
		copies.Go(func() { s.ask(ctx, o, i, false, o.body(), "") })
	}
	copies.Go(func() { s.crash(ctx, o) })
	copies.Wait()
	if o.conflict {
		s.ask(ctx, o, 1<<7, false, o.wrongBody(), "the same key for another amount")
	}
	if o.again {
		s.ask(ctx, o, 1<<6, false, o.body(), "again, later")
	}
}

func (s *Storm) learn(o *order, body string, a answer, err error, notes string) {
	if err == nil && a.status < 300 && !s.tally.answered(o, a) {
		notes = join(notes, "differs from the first answer")
	}
	s.log.outcome(o.key, body, a, err, notes)
}

func join(notes, more string) string {
	if notes == "" || more == "" {
		return notes + more
	}
	return notes + "; " + more
}

func (s *Storm) enter(stage string) {
	s.stage.Store(stage)
	s.progress()
}

func (s *Storm) progress() {
	if s.Progress == nil {
		return
	}
	n := s.tally.counts()
	stage, _ := s.stage.Load().(string)
	s.Progress(Progress{n.finished, s.Orders, n.kills + n.clientKills, s.Kills + s.ClientKills, n.attempts, n.dropped, stage, "", false, 0})
}
