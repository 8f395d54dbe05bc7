package killstorm

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
)

// GatewaysConfig of a storm over gateways in front of shops. Every field but Progress is required.
type GatewaysConfig struct {
	Orders   int // of each mode: a multiple of OrderStep
	Seed     uint64
	Session  string // that no other storm on the database of the gateways has had
	Modes    []GatewayMode
	Progress func(Progress) // called often, by several goroutines
}

// OrderStep is the smallest number of orders: each of two shops gets each fate once.
const OrderStep = 8

// TenantHeader is the header with the tenant of a request for a gateway.
const TenantHeader = "X-Tenant"

// ModeBare is the mode without gateways. Each other mode has the name of the policy of its gateways.
const ModeBare = "bare"

// GatewayMode is two shops with new databases, each with or without a gateway in front of it.
type GatewayMode struct {
	Name   string
	Fronts []Front
}

// Front is the address to which the clients of a shop send their orders.
type Front struct {
	Shop    *Server
	Gateway *Server // nil if the clients send to the shop without a gateway
	Path    string  // of the orders
	Books   *sql.DB // of the shop
}

// fates are the faults of the orders of a shop. Each is as frequent as the others.
var fates = []string{fateAnswered, fateBefore, fateAfter, fateSilent}

// RunGateways runs the same storm in each mode, and counts the charges of the shops. Its error means that the storm has no result, not that the
// result is bad.
func RunGateways(ctx context.Context, cfg GatewaysConfig) (r GatewaysReport, err error) {
	for _, m := range cfg.Modes {
		s := newModeStorm(cfg, m)
		took, err := s.run(ctx, s.rage)
		if err == nil {
			err = s.count(ctx, &r)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.Name, err)
		}
		r.Took += took
	}
	r.judge()
	return r, nil
}

// modeStorm is the storm in one mode.
type modeStorm struct {
	frame

	mode     GatewayMode
	session  string
	orders   []*shopIntent
	busy     []sync.Mutex    // one for each front, which has one order at a time: so each kill hits the intended order
	begun    []chan struct{} // one for each front; closed when its first order has ended
	mu       sync.Mutex
	shopDied int
}

// shopIntent is one order, and its outcome.
type shopIntent struct {
	shopOrder

	fate     string
	struck   bool // the fault has happened
	answered bool // the client got the answer that the order is charged
	unknown  bool // the client got the answer that the outcome is unknown, and that it must not retry
}

func newModeStorm(cfg GatewaysConfig, m GatewayMode) *modeStorm {
	s := &modeStorm{mode: m, session: cfg.Session, busy: make([]sync.Mutex, len(m.Fronts))}
	for range m.Fronts {
		s.begun = append(s.begun, make(chan struct{}))
	}
	s.frame = frame{orders: cfg.Orders, clients: 2 * len(m.Fronts), seed: cfg.Seed}
	for _, f := range m.Fronts {
		if f.Gateway != nil {
			s.victims = append(s.victims, f.Gateway)
			s.each = cfg.Orders / OrderStep
		}
	}
	if cfg.Progress != nil {
		s.tell = func(p Progress) { p.What = "orders"; cfg.Progress(p) }
	}
	s.init()
	s.plan(rand.New(rand.NewPCG(cfg.Seed, 0)))
	return s
}

// plan gives each shop each fault equally often. The first order of a shop is answered, so that a gateway has seen a receipt before an answer is
// lost.
func (s *modeStorm) plan(rng *rand.Rand) {
	s.orders = make([]*shopIntent, s.frame.orders)
	for n := range s.mode.Fronts {
		for at := n; at < len(s.orders); at += len(s.mode.Fronts) * len(fates) {
			order := rng.Perm(len(fates))
			if at == n {
				first := slices.Index(order, 0) // the order with fateAnswered
				order[0], order[first] = order[first], order[0]
			}
			for k, fate := range order {
				i := at + k*len(s.mode.Fronts)
				s.orders[i] = &shopIntent{shopOrder: shopOrder{fmt.Sprintf("%s-%s-%d", s.session, s.mode.Name, i), firstAmount + i}, fate: fates[fate]}
			}
		}
	}
}

// rage runs the part of the storm in which processes live.
func (s *modeStorm) rage(ctx context.Context) error {
	s.enter(s.mode.Name)
	for _, f := range s.mode.Fronts { // the shops first: the gateways need their addresses
		if err := f.Shop.start(ctx); err != nil {
			return err
		}
		defer func() { _ = f.Shop.kill() }() // an error means that it ended when the storm was cancelled
	}
	if err := startAll(ctx, s.victims...); err != nil {
		return err
	}
	if err := s.askAll(ctx, s.order); err != nil {
		return err
	}
	for _, f := range s.mode.Fronts {
		if err := f.Shop.kill(); err != nil {
			return err
		}
	}
	return nil
}

// order sends an order until it is answered, or until the answer is that the outcome is unknown.
func (s *modeStorm) order(ctx context.Context, i int) error {
	defer s.answered.count()
	n := i % len(s.mode.Fronts)
	if i == n {
		defer close(s.begun[n])
	} else {
		select {
		case <-s.begun[n]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.busy[n].Lock()
	defer s.busy[n].Unlock()
	for o, f := s.orders[i], s.mode.Fronts[n]; ; {
		s.sent.Add(1)
		a, sent, err := s.attempt(ctx, f, o)
		var p struct {
			Code      string `json:"code"`
			Retryable bool   `json:"retryable"`
		}
		_ = json.Unmarshal(a.body, &p) // an answer may have no body
		switch {
		case err != nil:
			return err
		case sent != nil, a.status >= http.StatusInternalServerError, a.status == http.StatusConflict && p.Retryable:
		case a.status == http.StatusCreated:
			o.answered = true
			return nil
		case p.Code == "CONFLICT.idempotency.unknown":
			o.unknown = true
			return nil
		default:
			return fmt.Errorf("an order is answered with %d %s", a.status, a.body)
		}
		if sleep(ctx, askPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// attempt sends an order once. Its fault happens with the first request that reaches the shop.
func (s *modeStorm) attempt(ctx context.Context, f Front, o *shopIntent) (a answer, sent, err error) {
	if o.fate == fateSilent && !o.struck {
		return s.interrupted(ctx, f, o)
	}
	a, sent = s.send(ctx, f, o)
	if o.struck || o.fate == fateAnswered {
		return a, sent, nil
	}
	n, err := number(ctx, f.Books, "select count(*) from arrival where order_id = ?", o.Order)
	if err != nil || n == 0 {
		return a, sent, err
	}
	o.struck = true
	s.mu.Lock()
	s.shopDied++
	s.mu.Unlock()
	return a, sent, f.Shop.restart(ctx)
}

// interrupted sends an order and kills the gateway as soon as the shop has committed. Without a gateway, the client disconnects.
func (s *modeStorm) interrupted(ctx context.Context, f Front, o *shopIntent) (a answer, sent, err error) {
	sending, hangUp := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a, sent = s.send(sending, f, o)
	}()
	defer func() { <-ended }()
	defer hangUp()
	for {
		n, err := number(ctx, f.Books, "select count(*) from charge where order_id = ?", o.Order)
		if err != nil {
			return a, nil, err
		}
		if n > 0 {
			break
		}
		select {
		case <-ended: // the request has not reached the shop
			return a, sent, nil
		default:
		}
		if sleep(ctx, askPause) != nil {
			return a, nil, context.Cause(ctx)
		}
	}
	o.struck = true
	if f.Gateway == nil {
		return answer{}, errHungUp, nil
	}
	if err := f.Gateway.kill(); err != nil {
		return a, nil, err
	}
	s.mu.Lock()
	s.kills[f.Gateway]++
	s.mu.Unlock()
	s.killed.count()
	return answer{}, errHungUp, f.Gateway.start(ctx)
}

// send sends one request.
func (s *modeStorm) send(ctx context.Context, f Front, o *shopIntent) (answer, error) {
	to := f.Shop
	if f.Gateway != nil {
		to = f.Gateway
	}
	body, err := json.Marshal(o.shopOrder)
	if err != nil {
		return answer{}, err
	}
	w := wire{address: to.Address(), tenant: s.session}
	req, err := w.request(ctx, f.Path, o.Order, string(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set(TenantHeader, s.session)
	req.Header.Set(fateHeader, o.fate)
	return w.send(ctx, req, deliver)
}

func number(ctx context.Context, db *sql.DB, query string, args ...any) (n int, err error) {
	err = db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}
