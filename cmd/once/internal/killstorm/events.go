package killstorm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
)

// EventsConfig of a storm over the events of a service. Every field but Log and Progress is required.
type EventsConfig struct {
	Orders  int // refunds that clients want; every fourth is voided again
	Clients int // that work at the same time
	Kills   int // of each process
	Seed    uint64
	Tenant  string // that no other storm on this database has had

	Service *Server   // adds the events
	Broker  *Server   // a NATS server with JetStream, which keeps its files
	Relays  []*Server // deliver the events to the broker
	Witness Witness

	// Receiver books the events, whose subjects begin with [ReceiverPrefix]. It cannot book a refund of
	// [EventsConfig.Defect] until Fix was called and it has started again. What it logs is JSON.
	Receiver *Server
	Fix      func()
	Letters  func(context.Context) (*deadletter.Letters, error) // called when Service has made the tables

	Log      *EventsLog
	Progress func(Progress) // called often, by several goroutines
}

// Events is one run of a storm over events.
type Events struct {
	EventsConfig

	consumer  *consumer
	forwarder *forwarder
	told      *told
	letters   *deadletter.Letters
	charge    [charges]string
	behind    int // events that waited for a dead letter

	answered *meter
	killed   *meter
	sent     atomic.Int64
	kills    map[*Server]int // when they are all over
	stage    atomic.Value    // string
}

// RunEvents runs a storm to its end and counts what has arrived. Its error means that there is no
// result, not that the result is bad.
func RunEvents(ctx context.Context, cfg EventsConfig) (EventsReport, error) {
	s := &Events{EventsConfig: cfg, told: newTold(), answered: newMeter(), killed: newMeter(), kills: map[*Server]int{}}
	s.Receiver.Log = s.told
	if cfg.Log != nil {
		s.Receiver.Log = io.MultiWriter(s.told, cfg.Log.receiver)
	}
	began := time.Now()
	report, err := s.rage(ctx)
	for _, p := range s.processes() {
		err = errors.Join(err, p.kill())
	}
	report.Took = time.Since(began)
	return report, err
}

func (s *Events) processes() []*Server {
	return append([]*Server{s.Service, s.Broker, s.Receiver}, s.Relays...)
}

// rage is everything that happens while there are processes.
func (s *Events) rage(ctx context.Context) (report EventsReport, err error) {
	s.enter("starting")
	for _, p := range []*Server{s.Service, s.Broker} { // the service first: it makes the tables
		if err := p.start(ctx); err != nil {
			return report, err
		}
	}
	if s.letters, err = s.Letters(ctx); err != nil {
		return report, err
	}
	if s.consumer, err = newConsumer(ctx, s.Broker.address, s.parked); err != nil {
		return report, err
	}
	defer s.consumer.close()
	s.forwarder = s.consumer.forwarder
	for _, p := range append([]*Server{s.Receiver}, s.Relays...) {
		if err := p.start(ctx); err != nil {
			return report, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopReading := inBackground(ctx, func(ctx context.Context) { s.consumer.run(ctx, s.progress) })
	defer stopReading()
	stopForwarding := inBackground(ctx, s.forwarder.run)
	defer stopForwarding()

	s.enter("storm")
	var killer sync.WaitGroup
	killer.Go(func() {
		if err := s.killAll(ctx); err != nil {
			cancel(err)
		}
	})
	if err := s.refundAll(ctx); err != nil {
		cancel(err)
	}
	killer.Wait()
	if err := context.Cause(ctx); err != nil {
		return report, err
	}
	s.enter("delivering")
	wanted, err := s.Witness.events(ctx, s.Tenant)
	if err != nil {
		return report, fmt.Errorf("the witness cannot see: %w", err)
	}
	s.consumer.await(ctx, wanted)
	if err := context.Cause(ctx); err != nil {
		return report, err
	}
	s.awaitEmpty(ctx)
	stopReading()
	s.enter("booking")
	s.forwarder.handled.wait(ctx, s.forwarder.arrived.value(), forever)
	stopForwarding()
	got, err := s.receive(ctx, wanted)
	if err != nil {
		return report, err
	}
	return s.report(wanted, got), nil
}

// inBackground returns a function that ends run and waits for that.
func inBackground(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() { cancel(); running.Wait() }
}

// awaitEmpty waits until the relays have removed all messages from the outbox. It gives up after patience: messages
// that cannot be delivered stay there.
func (s *Events) awaitEmpty(ctx context.Context) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if n, err := s.Witness.waiting(ctx); err == nil && n == 0 || sleep(ctx, tick) != nil {
			return
		}
	}
}

// killAll kills one process after the other and starts it again, each kill after some more requests
// were answered, when a message has just been delivered.
func (s *Events) killAll(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(s.Seed, 1<<62))
	victims := s.processes()
	for k := range s.Kills * len(victims) {
		victim := victims[k%len(victims)]
		if !s.answered.wait(ctx, s.killsAt(k), forever) {
			return nil // called off, which our caller knows
		}
		heard := s.consumer.heard
		if victim == s.Receiver {
			heard = s.told.messages // it has just committed, and perhaps not acknowledged
		}
		heard.wait(ctx, heard.value()+1, heardPatience)
		if err := sleep(ctx, time.Duration(rng.Int64N(int64(ackDelay)))); err != nil {
			return nil //nolint:nilerr // likewise
		}
		if err := victim.kill(); err != nil {
			return err
		}
		s.kills[victim]++
		if err := victim.start(ctx); err != nil {
			return err
		}
		s.killed.count()
		s.progress()
	}
	return nil
}

const (
	// ackDelay is how long a relay needs to learn that a message was stored, and to delete its row: a
	// kill within it, after the message was heard of, has the message delivered again.
	ackDelay = time.Millisecond

	// heardPatience is how long a kill waits for a message to be delivered.
	heardPatience = 2 * time.Second
)

// killsAt is how many refunds are answered before kill number k.
func (s *Events) killsAt(k int) int {
	return k * s.Orders / (s.Kills * len(s.processes()))
}

// refundAll has the clients make every refund. The last ones wait for the kills that belong before
// them, or the storm would be over before the last kill.
func (s *Events) refundAll(ctx context.Context) error {
	for i := range s.charge {
		a, err := s.ask(ctx, chargesPath, fmt.Sprintf("charge-%d", i), fmt.Sprintf(`{"amount":%d,"currency":"EUR","customer":"storm"}`, chargeAmount))
		if err != nil {
			return err
		}
		s.charge[i] = resultID(a)
	}
	next, failed := make(chan int), make(chan error, s.Clients)
	var clients sync.WaitGroup
	for range s.Clients {
		clients.Go(func() {
			for i := range next {
				if err := s.refund(ctx, i, s.charge[i%charges]); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	defer clients.Wait()
	defer close(next)
	for i := range s.Orders {
		if !s.killed.wait(ctx, i*s.Kills*len(s.processes())/s.Orders-1, forever) {
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

func (s *Events) refund(ctx context.Context, i int, charge string) error {
	a, err := s.ask(ctx, refundsPath, fmt.Sprintf("refund-%d", i), fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, charge, firstAmount+i))
	if err == nil && i%4 == 3 {
		_, err = s.ask(ctx, refundsPath+"/"+resultID(a)+"/void", fmt.Sprintf("void-%d", i), "")
	}
	s.answered.count()
	s.progress()
	return err
}

// ask sends a request until it is answered: the service may be dead.
func (s *Events) ask(ctx context.Context, path, key, body string) (answer, error) {
	const pause = 10 * time.Millisecond
	w := wire{address: s.Service.address, tenant: s.Tenant, trace: traceOf(s.Tenant, key)}
	for attempt := 1; ; attempt++ {
		s.sent.Add(1)
		a, err := w.post(ctx, path, once.DeriveKey(s.Tenant, key), body, attempt, deliver)
		switch {
		case err == nil && a.status < http.StatusMultipleChoices:
			return a, nil
		case err == nil && a.status != http.StatusConflict && a.status < http.StatusInternalServerError:
			return a, fmt.Errorf("the service answers %s with %d %s", path, a.status, a.body)
		}
		if sleep(ctx, pause) != nil {
			return answer{}, context.Cause(ctx)
		}
	}
}

// traceOf returns a traceparent for all attempts of a request.
func traceOf(tenant, key string) string {
	sum := sha256.Sum256([]byte(tenant + " " + key))
	return fmt.Sprintf("00-%x-%x-01", sum[:16], sum[16:24])
}

func (s *Events) enter(stage string) {
	s.stage.Store(stage)
	s.progress()
}

func (s *Events) progress() {
	if s.Progress == nil {
		return
	}
	stage, _ := s.stage.Load().(string)
	delivered := 0
	if s.consumer != nil {
		delivered = s.consumer.heard.value()
	}
	s.Progress(Progress{
		Finished: s.answered.value(), Orders: s.Orders, Killed: s.killed.value(), Kills: s.Kills * len(s.processes()),
		Sent: int(s.sent.Load()), Events: true, Delivered: delivered, Stage: stage,
	})
}
