package killstorm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
)

// ProvidersConfig of a storm over a service that charges through external providers. Every field but Progress is required.
type ProvidersConfig struct {
	Orders  int // each third is paid in another way; at least LeastOrders
	Clients int // that work at the same time
	Kills   int // of each process
	Seed    uint64
	Session string // that no other storm on this database has had

	Nodes            []*Server // of the service
	Dedupes, Forgets *Server   // the providers
	DedupesFile      string    // what they have done
	ForgetsFile      string

	// Unknown lists the keys whose outcome is unknown, in the scope of the orders, and Resolve decides one, as once keys does.
	Unknown func(ctx context.Context, scope string) (keys []string, err error)
	Resolve func(ctx context.Context, scope, key string, d Decision) error

	Witness  Witness
	Progress func(Progress) // called often, by several goroutines
}

// Decision is what an operator has found out about an order: the charge that was made, or that there is none.
type Decision struct {
	Answer []byte // of status 201; nil: it has failed
	Failed string
}

// Providers is one run of such a storm.
type Providers struct {
	ProvidersConfig

	answered *meter
	killed   *meter
	sent     atomic.Int64
	kills    map[*Server]int // when they are all over
	stage    atomic.Value    // string

	mu       sync.Mutex
	outcomes []orderOutcome // by number
}

// orderOutcome is what the client of an order has learnt.
type orderOutcome struct {
	charge  string // "": it has failed
	unknown bool   // it was told so once
	decided bool   // by the operator
	done    bool
}

// RunProviders runs a storm to its end and counts the charges. Its error means that there is no result, not that the result is bad.
func RunProviders(ctx context.Context, cfg ProvidersConfig) (ProvidersReport, error) {
	s := &Providers{ProvidersConfig: cfg, answered: newMeter(), killed: newMeter(), kills: map[*Server]int{}, outcomes: make([]orderOutcome, cfg.Orders)}
	began := time.Now()
	report, err := s.rage(ctx)
	for _, p := range s.processes() {
		err = errors.Join(err, p.kill())
	}
	if err == nil {
		err = s.count(ctx, &report)
	}
	report.Took = time.Since(began)
	return report, err
}

func (s *Providers) processes() []*Server {
	return append([]*Server{s.Dedupes, s.Forgets}, s.Nodes...)
}

// rage is everything that happens while there are processes.
func (s *Providers) rage(ctx context.Context) (r ProvidersReport, err error) {
	s.enter("starting")
	for _, p := range s.processes() { // the providers first: the service needs their addresses
		if err := p.start(ctx); err != nil {
			return r, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.enter("storm")
	var killer sync.WaitGroup
	killer.Go(func() {
		if err := s.killAll(ctx); err != nil {
			cancel(err)
		}
	})
	if err := s.orderAll(ctx, s.order); err != nil {
		cancel(err)
	}
	killer.Wait()
	if err := context.Cause(ctx); err != nil {
		return r, err
	}
	s.enter("operator")
	for _, p := range append([]*Server{s.Forgets}, s.Nodes...) { // then no call is on its way: a charge that the provider does not have now will not come later
		if err := p.kill(); err != nil {
			return r, err
		}
	}
	if err := s.decide(ctx); err != nil {
		return r, err
	}
	for _, p := range append([]*Server{s.Forgets}, s.Nodes...) {
		if err := p.start(ctx); err != nil {
			return r, err
		}
	}
	s.enter("retries")
	return r, s.orderAll(ctx, s.again)
}

// killAll kills one process after the other and starts it again, each kill after some more orders were answered.
func (s *Providers) killAll(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(s.Seed, 1<<62))
	victims := s.processes()
	for k := range s.Kills * len(victims) {
		if !s.answered.wait(ctx, k*s.underFire()/(s.Kills*len(victims)), forever) {
			return nil // called off, which our caller knows
		}
		if err := sleep(ctx, time.Duration(rng.Int64N(int64(2*chargeTime)))); err != nil {
			return nil //nolint:nilerr // likewise
		}
		victim := victims[k%len(victims)]
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

// orderAll has the clients ask for every order. The last ones wait for the kills that belong before them.
func (s *Providers) orderAll(ctx context.Context, ask func(ctx context.Context, i int) error) error {
	next, failed := make(chan int), make(chan error, s.Clients)
	var clients sync.WaitGroup
	for range s.Clients {
		clients.Go(func() {
			for i := range next {
				if err := ask(ctx, i); err != nil {
					failed <- err
					return
				}
				s.progress()
			}
		})
	}
	err := func() error {
		defer close(next)
		for i := range s.Orders {
			if !s.killed.wait(ctx, s.killsBefore(i), forever) {
				return nil
			}
			select {
			case next <- i:
			case err := <-failed:
				return err
			}
		}
		return nil
	}()
	clients.Wait()
	close(failed)
	return errors.Join(err, <-failed)
}

// calmOrders is how many orders, the last ones, meet no kill: each mishap for each way to pay. What is to occur has then occurred.
const calmOrders = 3 * mishaps

// LeastOrders is the smallest number of them.
const LeastOrders = 2 * calmOrders

// underFire is how many orders may meet a kill.
func (s *Providers) underFire() int { return s.Orders - calmOrders }

// killsBefore is how many kills an order waits for.
func (s *Providers) killsBefore(i int) int {
	all := s.Kills * len(s.processes())
	if i >= s.underFire() {
		return all
	}
	return i*all/s.underFire() - 1
}

// ways in which an order is paid.
var ways = []string{payChecked, payRepeated, payUnsafely}

func wayOf(i int) string { return ways[i%len(ways)] }

func (s *Providers) keyOf(i int) string { return once.DeriveKey(s.Session, s.nameOf(i)) }

func (s *Providers) nameOf(i int) string { return fmt.Sprintf("%s-%d", s.Session, i) }

// order asks for an order until it is done, or only the operator can decide it.
func (s *Providers) order(ctx context.Context, i int) error {
	defer s.answered.count()
	return s.ask(ctx, i, func(a answer) (done bool) { return a.status == http.StatusConflict && wayOf(i) == payUnsafely })
}

// again asks once more for an order: it has come to its end.
func (s *Providers) again(ctx context.Context, i int) error {
	return s.ask(ctx, i, func(answer) bool { return false })
}

// ask sends the request of an order until it is answered for good, or enough says of an unknown outcome that it is enough.
func (s *Providers) ask(ctx context.Context, i int, enough func(answer) bool) error {
	body, err := json.Marshal(orderRequest{chargeRequest{s.nameOf(i), i / len(ways)}, wayOf(i)})
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		node := s.Nodes[(i+attempt)%len(s.Nodes)]
		s.sent.Add(1)
		a, err := (wire{address: node.Address(), tenant: s.Session}).post(ctx, ordersPath, s.keyOf(i), string(body), attempt, deliver)
		var p struct {
			Code      string `json:"code"`
			StatusURL string `json:"status_url"`
		}
		_ = json.Unmarshal(a.body, &p) // there may be no answer
		switch {
		case err != nil, a.status >= http.StatusInternalServerError, p.Code == "CONFLICT.idempotency.in_flight":
		case a.status == http.StatusCreated, a.status == http.StatusUnprocessableEntity:
			return s.learn(i, a)
		case p.Code != "CONFLICT.idempotency.unknown":
			return fmt.Errorf("an order is answered with %d %s", a.status, a.body)
		case p.StatusURL != statusPath+s.keyOf(i):
			return fmt.Errorf("an order is unknown, and its state is said to be at %q", p.StatusURL)
		default:
			s.mu.Lock()
			s.outcomes[i].unknown = true
			s.mu.Unlock()
			if enough(a) {
				return nil
			}
		}
		if sleep(ctx, askPause) != nil {
			return context.Cause(ctx)
		}
	}
}

const askPause = 30 * time.Millisecond

// learn notes the final answer of an order, which is the same each time.
func (s *Providers) learn(i int, a answer) error {
	var c chargeAnswer
	if err := json.Unmarshal(a.body, &c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.outcomes[i]
	if o.done && o.charge != c.Charge {
		return fmt.Errorf("the order %s is answered with the charge %q, and then with %q", s.nameOf(i), o.charge, c.Charge)
	}
	o.done, o.charge = true, c.Charge
	return nil
}

// decide is what an operator does: the list of the provider tells which charges were made.
func (s *Providers) decide(ctx context.Context) error {
	keys, err := s.Unknown(ctx, ordersScope)
	if err != nil {
		return err
	}
	deeds, err := readDeeds(s.ForgetsFile)
	if err != nil {
		return err
	}
	for i := range s.Orders {
		if !slices.Contains(keys, s.keyOf(i)) || wayOf(i) != payUnsafely {
			continue
		}
		d := Decision{Failed: "the provider has made no charge, and no call is on its way to it"}
		for _, done := range deeds {
			if done.What == "charge" && done.Order == s.nameOf(i) {
				if d.Answer, err = json.Marshal(chargeAnswer{done.Charge}); err != nil {
					return err
				}
			}
		}
		if err := s.Resolve(ctx, ordersScope, s.keyOf(i), d); err != nil {
			return err
		}
		s.outcomes[i].decided = true
		s.progress()
	}
	return nil
}

func (s *Providers) enter(stage string) {
	s.stage.Store(stage)
	s.progress()
}

func (s *Providers) progress() {
	if s.Progress == nil {
		return
	}
	stage, _ := s.stage.Load().(string)
	s.Progress(Progress{
		Finished: s.answered.value(), Orders: s.Orders, Killed: s.killed.value(), Kills: s.Kills * len(s.processes()),
		Sent: int(s.sent.Load()), Stage: stage, What: "orders",
	})
}
