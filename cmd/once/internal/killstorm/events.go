package killstorm

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
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
	Tenant  string // unique for this storm in the database

	Service *Server   // adds the events
	Broker  *Server   // keeps its files
	Relays  []*Server // deliver the events to the broker
	Witness Witness

	// Connect makes the streams of Broker, and waits until Broker answers.
	Connect func(ctx context.Context, address string) (Streams, error)

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
	frame

	consumer  *consumer
	forwarder *forwarder
	told      *told
	letters   *deadletter.Letters
	charge    [charges]string
	behind    int // events that waited for a dead letter
}

// RunEvents runs a storm to its end and counts the arrived events. Its error means that the storm has no result, not that the result is bad.
func RunEvents(ctx context.Context, cfg EventsConfig) (EventsReport, error) {
	s := newEvents(cfg)
	s.Receiver.Log = s.told
	if cfg.Log != nil {
		s.Receiver.Log = io.MultiWriter(s.told, cfg.Log.receiver)
	}
	var report EventsReport
	took, err := s.run(ctx, func(ctx context.Context) (err error) {
		report, err = s.rage(ctx)
		return err
	})
	report.Took = took
	return report, err
}

func newEvents(cfg EventsConfig) *Events {
	s := &Events{EventsConfig: cfg, told: newTold()}
	s.frame = frame{
		victims: append([]*Server{cfg.Service, cfg.Broker, cfg.Receiver}, cfg.Relays...),
		orders:  cfg.Orders, clients: cfg.Clients, each: cfg.Kills, seed: cfg.Seed,
	}
	if cfg.Progress != nil {
		s.tell = func(p Progress) {
			p.Events = true
			if s.consumer != nil {
				p.Delivered = s.consumer.heard.value()
			}
			cfg.Progress(p)
		}
	}
	s.init()
	return s
}

// rage runs the part of the storm in which processes live.
func (s *Events) rage(ctx context.Context) (report EventsReport, err error) {
	s.enter("starting")
	if err := startAll(ctx, s.Service, s.Broker); err != nil { // the service first: it makes the tables
		return report, err
	}
	if s.letters, err = s.Letters(ctx); err != nil {
		return report, err
	}
	streams, err := s.Connect(ctx, s.Broker.address)
	if err != nil {
		return report, err
	}
	defer streams.Close()
	s.consumer = newConsumer(streams, s.parked)
	s.forwarder = s.consumer.forwarder
	if err := startAll(ctx, append([]*Server{s.Receiver}, s.Relays...)...); err != nil {
		return report, err
	}
	stopReading := inBackground(ctx, func(ctx context.Context) { s.consumer.run(ctx, s.progress) })
	defer stopReading()
	stopForwarding := inBackground(ctx, s.forwarder.run)
	defer stopForwarding()

	if err := s.chargeAll(ctx); err != nil {
		return report, err
	}
	if err := s.storm(ctx, s.aim, s.refund); err != nil {
		return report, err
	}
	s.enter("delivering")
	wanted, err := s.Witness.events(ctx, s.Tenant)
	if err != nil {
		return report, fmt.Errorf("the check of the database has failed: %w", err)
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

// inBackground starts run, and returns a function that cancels it and waits until it has ended.
func inBackground(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() { cancel(); running.Wait() }
}

// awaitEmpty waits until the relays have removed all messages from the outbox. It stops after patience, because messages that cannot be delivered
// stay there.
func (s *Events) awaitEmpty(ctx context.Context) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if n, err := s.Witness.waiting(ctx); err == nil && n == 0 || sleep(ctx, tick) != nil {
			return
		}
	}
}

// aim waits until a message has just been delivered: a kill at this moment is most likely to cause a duplicate.
func (s *Events) aim(ctx context.Context, victim *Server, rng *rand.Rand) error {
	heard := s.consumer.heard
	if victim == s.Receiver {
		heard = s.told.messages // its booking has just committed, and may not be acknowledged yet
	}
	heard.wait(ctx, heard.value()+1, heardPatience)
	return sleep(ctx, time.Duration(rng.Int64N(int64(ackDelay))))
}

const (
	// ackDelay is how long a relay needs to learn that a message was stored, and to delete its row: after a kill within this time the message is
	// delivered again.
	ackDelay = time.Millisecond

	// heardPatience is how long a kill waits for a message to be delivered.
	heardPatience = 2 * time.Second
)

// chargeAll makes the charges that the refunds need.
func (s *Events) chargeAll(ctx context.Context) error {
	for i := range s.charge {
		a, err := s.ask(ctx, chargesPath, fmt.Sprintf("charge-%d", i), fmt.Sprintf(`{"amount":%d,"currency":"EUR","customer":"storm"}`, chargeAmount))
		if err != nil {
			return err
		}
		s.charge[i] = resultID(a)
	}
	return nil
}

// refund makes the refund with number i, and voids every fourth one.
func (s *Events) refund(ctx context.Context, i int) error {
	defer s.answered.count()
	a, err := s.ask(ctx, refundsPath, fmt.Sprintf("refund-%d", i), fmt.Sprintf(`{"charge_id":%q,"amount":%d}`, s.charge[i%charges], firstAmount+i))
	if err == nil && i%4 == 3 {
		_, err = s.ask(ctx, refundsPath+"/"+resultID(a)+"/void", fmt.Sprintf("void-%d", i), "")
	}
	return err
}

// ask sends a request until it is answered: the service may have been killed.
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

// traceOf returns the traceparent that all attempts of a request have.
func traceOf(tenant, key string) string {
	sum := sha256.Sum256([]byte(tenant + " " + key))
	return fmt.Sprintf("00-%x-%x-01", sum[:16], sum[16:24])
}
