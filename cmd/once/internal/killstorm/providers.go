package killstorm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once"
)

// ProvidersConfig of a storm over a service that charges through external providers. Every field but Progress is required.
type ProvidersConfig struct {
	Orders  int // at least LeastOrders; each third of them is paid in another way
	Clients int // that work at the same time
	Kills   int // of each process
	Seed    uint64
	Session string // that no other storm on this database has had

	Nodes            []*Server // of the service
	Dedupes, Forgets *Server   // the providers
	DedupesFile      string    // the file with the deeds of Dedupes
	ForgetsFile      string

	// Unknown lists the keys whose outcome is unknown, in the scope of the orders, and Resolve decides one, as once keys does.
	Unknown func(ctx context.Context, scope string) (keys []string, err error)
	Resolve func(ctx context.Context, scope, key string, d Decision) error

	Witness  Witness
	Progress func(Progress) // called often, by several goroutines
}

// Decision is an operator's finding about an order: the charge that was made, or that no charge exists.
type Decision struct {
	Answer []byte // the answer for the client, with status 201; nil if no charge exists
	Failed string
}

// Providers is one run of such a storm.
type Providers struct {
	ProvidersConfig
	frame

	mu       sync.Mutex
	outcomes []orderOutcome // by number
}

// orderOutcome is the outcome of an order for its client.
type orderOutcome struct {
	charge  string // "" if the order has failed
	unknown bool   // the client has got the answer that the outcome is unknown
	decided bool   // the operator has decided it
	done    bool
}

// RunProviders runs a storm to its end and counts the charges. Its error means that the storm has no result, not that the result is bad.
func RunProviders(ctx context.Context, cfg ProvidersConfig) (ProvidersReport, error) {
	s := newProviders(cfg)
	var report ProvidersReport
	took, err := s.run(ctx, s.rage)
	if err == nil {
		err = s.count(ctx, &report)
	}
	report.Took = took
	return report, err
}

func newProviders(cfg ProvidersConfig) *Providers {
	s := &Providers{ProvidersConfig: cfg, outcomes: make([]orderOutcome, cfg.Orders)}
	s.frame = frame{
		victims: append([]*Server{cfg.Dedupes, cfg.Forgets}, cfg.Nodes...),
		orders:  cfg.Orders, calm: calmOrders, clients: cfg.Clients, each: cfg.Kills, seed: cfg.Seed,
	}
	if cfg.Progress != nil {
		s.tell = func(p Progress) { p.What = "orders"; cfg.Progress(p) }
	}
	s.init()
	return s
}

// rage runs the part of the storm in which processes live.
func (s *Providers) rage(ctx context.Context) error {
	s.enter("starting")
	if err := startAll(ctx, s.victims...); err != nil { // the providers first: the service needs their addresses
		return err
	}
	if err := s.storm(ctx, aimAtCharge, s.order); err != nil {
		return err
	}
	s.enter("operator")
	callers := append([]*Server{s.Forgets}, s.Nodes...)
	for _, p := range callers { // afterwards no call is on its way, so no further charge can be made
		if err := p.kill(); err != nil {
			return err
		}
	}
	if err := s.decide(ctx); err != nil {
		return err
	}
	if err := startAll(ctx, callers...); err != nil {
		return err
	}
	s.enter("retries")
	return s.askAll(ctx, s.again)
}

// aimAtCharge waits for a random part of the time that a charge takes.
func aimAtCharge(ctx context.Context, _ *Server, rng *rand.Rand) error {
	return sleep(ctx, time.Duration(rng.Int64N(int64(2*chargeTime))))
}

// calmOrders is the number of orders at the end during which no process is killed: one for each fault and each way to pay, so that each fault
// happens at least once without a kill.
const calmOrders = 3 * mishaps

// LeastOrders is the smallest number of orders of such a storm.
const LeastOrders = 2 * calmOrders

// ways are the ways to pay for an order.
var ways = []string{payChecked, payRepeated, payUnsafely}

func wayOf(i int) string { return ways[i%len(ways)] }

func (s *Providers) keyOf(i int) string { return once.DeriveKey(s.Session, s.nameOf(i)) }

func (s *Providers) nameOf(i int) string { return fmt.Sprintf("%s-%d", s.Session, i) }

// order requests an order until it is done, or until only the operator can decide it.
func (s *Providers) order(ctx context.Context, i int) error {
	defer s.answered.count()
	return s.ask(ctx, i, func(a answer) (done bool) { return a.status == http.StatusConflict && wayOf(i) == payUnsafely })
}

// again requests an order once more after it has ended.
func (s *Providers) again(ctx context.Context, i int) error {
	return s.ask(ctx, i, func(answer) bool { return false })
}

// ask sends the request of an order until it gets a final answer, or until enough reports true for an answer with an unknown outcome.
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
		_ = json.Unmarshal(a.body, &p) // an answer may have no body
		switch {
		case err != nil, a.status >= http.StatusInternalServerError, p.Code == "CONFLICT.idempotency.in_flight":
		case a.status == http.StatusCreated, a.status == http.StatusUnprocessableEntity:
			return s.learn(i, a)
		case p.Code != "CONFLICT.idempotency.unknown":
			return fmt.Errorf("an order is answered with %d %s", a.status, a.body)
		case p.StatusURL != statusPath+s.keyOf(i):
			return fmt.Errorf("the answer for an order with an unknown outcome gives a wrong address of the status page: %q", p.StatusURL)
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
		return fmt.Errorf("the order %s was answered with the charge %q, and later with the charge %q", s.nameOf(i), o.charge, c.Charge)
	}
	o.done, o.charge = true, c.Charge
	return nil
}

// decide acts as an operator, who finds the charges in the list of the provider.
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
		d := Decision{Failed: "the provider has made no charge, and no call to the provider is in flight"}
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
