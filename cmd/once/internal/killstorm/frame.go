package killstorm

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// frame has the shared parts of storms over several processes: clients that work on numbered orders, a killer of the processes, and the progress of
// both. A new storm defines what an order is, the best moment for a kill, and the counts at the end.
type frame struct {
	victims []*Server // they are killed in turn
	orders  int
	calm    int // the number of orders at the end during which no process is killed
	clients int // that work at the same time
	each    int // kills of each process
	seed    uint64
	tell    func(Progress) // may be nil

	answered *meter
	killed   *meter
	sent     atomic.Int64
	kills    map[*Server]int // set when all kills are done
	stage    atomic.Value    // string
}

func (f *frame) init() {
	f.answered, f.killed, f.kills = newMeter(), newMeter(), map[*Server]int{}
}

// run runs a storm and kills the remaining processes at its end.
func (f *frame) run(ctx context.Context, storm func(context.Context) error) (took time.Duration, err error) {
	began := time.Now()
	err = storm(ctx)
	for _, p := range f.victims {
		err = errors.Join(err, p.kill())
	}
	return time.Since(began), err
}

func startAll(ctx context.Context, list ...*Server) error {
	for _, p := range list {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// aim waits for the moment at which a kill of a victim is most likely to cause an error.
type aim func(ctx context.Context, victim *Server, rng *rand.Rand) error

// storm lets the clients work on every order while the victims are killed.
func (f *frame) storm(ctx context.Context, at aim, ask func(ctx context.Context, i int) error) error {
	f.enter("storm")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var killer sync.WaitGroup
	killer.Go(func() {
		if err := f.killAll(ctx, at); err != nil {
			cancel(err)
		}
	})
	if err := f.askAll(ctx, ask); err != nil {
		cancel(err)
	}
	killer.Wait()
	return context.Cause(ctx)
}

// allKills is the total number of kills.
func (f *frame) allKills() int { return f.each * len(f.victims) }

// underFire is the number of orders during which processes are killed.
func (f *frame) underFire() int { return f.orders - f.calm }

// killAll kills one process after the other and restarts it. Before each kill some more orders are answered.
func (f *frame) killAll(ctx context.Context, at aim) error {
	rng := rand.New(rand.NewPCG(f.seed, 1<<62))
	for k := range f.allKills() {
		victim := f.victims[k%len(f.victims)]
		if !f.answered.wait(ctx, k*f.underFire()/f.allKills(), forever) {
			return nil // cancelled, and the caller sees that in ctx
		}
		if err := at(ctx, victim, rng); err != nil { // cancelled as well
			return err
		}
		if err := victim.kill(); err != nil {
			return err
		}
		f.kills[victim]++
		if err := victim.start(ctx); err != nil {
			return err
		}
		f.killed.count()
		f.progress()
	}
	return nil
}

// killsBefore returns how many kills must have happened before an order is sent: otherwise the storm would end before the last kill.
func (f *frame) killsBefore(i int) int {
	if i >= f.underFire() {
		return f.allKills()
	}
	return i*f.allKills()/f.underFire() - 1
}

// askAll lets the clients work on every order.
func (f *frame) askAll(ctx context.Context, ask func(ctx context.Context, i int) error) error {
	next, failed := make(chan int), make(chan error, f.clients)
	var clients sync.WaitGroup
	for range f.clients {
		clients.Go(func() {
			for i := range next {
				if err := ask(ctx, i); err != nil {
					failed <- err
					return
				}
				f.progress()
			}
		})
	}
	err := f.offer(ctx, next, failed)
	close(next)
	clients.Wait()
	close(failed)
	return errors.Join(err, <-failed)
}

// offer gives the orders to the clients, until a client fails.
func (f *frame) offer(ctx context.Context, next chan<- int, failed <-chan error) error {
	for i := range f.orders {
		if !f.killed.wait(ctx, f.killsBefore(i), forever) {
			return nil
		}
		select {
		case next <- i:
		case err := <-failed:
			return err
		}
	}
	return nil
}

func (f *frame) enter(stage string) {
	f.stage.Store(stage)
	f.progress()
}

func (f *frame) progress() {
	if f.tell == nil {
		return
	}
	stage, _ := f.stage.Load().(string)
	f.tell(Progress{
		Finished: f.answered.value(), Orders: f.orders, Killed: f.killed.value(), Kills: f.allKills(),
		Sent: int(f.sent.Load()), Stage: stage,
	})
}
