package killstorm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/oncelib/once"
)

// TransfersConfig of a storm over transfers between two banks. Every field but Progress is required.
type TransfersConfig struct {
	Orders  int // transfers; at least LeastTransfers
	Clients int // that work at the same time
	Kills   int // of each process
	Seed    uint64
	Session string // that no other storm on these databases has had

	Nodes        []*Server // of the first bank
	Clearing     *Server   // between the banks
	ClearingFile string    // the requests that it has got
	Other        *Server   // the second bank

	Banks    [2]Witness
	Progress func(Progress) // called often, by several goroutines
}

// Transfers is one run of such a storm.
type Transfers struct {
	TransfersConfig
	frame

	mu       sync.Mutex
	outcomes []transferOutcome // by number
	points   []books           // the books at moments when no transfer was running
}

// transferOutcome is the final answer that the client of a transfer got.
type transferOutcome string

const (
	completed   transferOutcome = "completed"
	compensated transferOutcome = "compensated"
	stuck       transferOutcome = "stuck"
)

// RunTransfers runs a storm to its end and counts the money. Its error means that the storm has no result, not that the result is bad.
func RunTransfers(ctx context.Context, cfg TransfersConfig) (TransfersReport, error) {
	s := newTransfers(cfg)
	var report TransfersReport
	took, err := s.run(ctx, s.rage)
	if err == nil {
		err = s.quiescent(ctx)
	}
	if err == nil {
		err = s.count(&report)
	}
	report.Took = took
	return report, err
}

func newTransfers(cfg TransfersConfig) *Transfers {
	s := &Transfers{TransfersConfig: cfg, outcomes: make([]transferOutcome, cfg.Orders)}
	s.frame = frame{
		victims: append([]*Server{cfg.Other, cfg.Clearing}, cfg.Nodes...),
		orders:  cfg.Orders, calm: calmTransfers, clients: cfg.Clients, each: cfg.Kills, seed: cfg.Seed,
	}
	if cfg.Progress != nil {
		s.tell = func(p Progress) { p.What = "transfers"; cfg.Progress(p) }
	}
	s.init()
	return s
}

// calmTransfers is the number of transfers at the end during which no process is killed: one for each fault, contract and refusal, so that each
// fault happens at least once without a kill.
const calmTransfers = clearingMishaps * 2 * 4

// LeastTransfers is the smallest number of transfers of such a storm.
const LeastTransfers = calmTransfers + calmTransfers/2

var refusals = []string{"", "withdraw", "deposit", "confirm"}

func (s *Transfers) transferOf(i int) transfer {
	return transfer{
		Name: fmt.Sprintf("%s-%d", s.Session, i), Number: i, Cents: int64(firstAmount + i),
		Repeats: i/clearingMishaps%2 == 1, Refused: refusals[i/(2*clearingMishaps)%len(refusals)],
	}
}

// rage runs the part of the storm in which processes live. The money is counted whenever no transfer is running.
func (s *Transfers) rage(ctx context.Context) error {
	s.enter("starting")
	if err := startAll(ctx, s.victims...); err != nil { // the second bank first: the others need its address
		return err
	}
	if err := s.storm(ctx, aimAtTransfer, s.order); err != nil {
		return err
	}
	s.enter("counting")
	if err := s.quiescent(ctx); err != nil {
		return err
	}
	s.enter("late requests")
	for {
		a, err := (wire{address: s.Clearing.Address()}).get(ctx, "/late")
		if err != nil {
			return err
		}
		if a.status == http.StatusOK {
			break
		}
		if err := sleep(ctx, askPause); err != nil {
			return context.Cause(ctx)
		}
	}
	if err := s.quiescent(ctx); err != nil {
		return err
	}
	s.enter("retries")
	return s.askAll(ctx, s.ask)
}

// aimAtTransfer waits for a random part of the time that a transfer takes.
func aimAtTransfer(ctx context.Context, _ *Server, rng *rand.Rand) error {
	return sleep(ctx, time.Duration(rng.Int64N(int64(bankPatience/4))))
}

// order requests a transfer until it has ended.
func (s *Transfers) order(ctx context.Context, i int) error {
	defer s.answered.count()
	return s.ask(ctx, i)
}

// ask sends the request of a transfer until it gets a final answer.
func (s *Transfers) ask(ctx context.Context, i int) error {
	t := s.transferOf(i)
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		node := s.Nodes[(i+attempt)%len(s.Nodes)]
		s.sent.Add(1)
		a, err := (wire{address: node.Address(), tenant: s.Session}).post(ctx, transfersPath, once.DeriveKey(t.Name), string(body), attempt, deliver)
		switch {
		case err != nil, a.status == http.StatusServiceUnavailable:
		case a.status == http.StatusOK:
			return s.learn(i, completed)
		case a.status == http.StatusUnprocessableEntity:
			return s.learn(i, compensated)
		case a.status == http.StatusConflict:
			return s.learn(i, stuck)
		default:
			return fmt.Errorf("a transfer is answered with %d %s", a.status, a.body)
		}
		if sleep(ctx, askPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// learn notes the final answer of a transfer, which is the same each time.
func (s *Transfers) learn(i int, told transferOutcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.outcomes[i]; before != "" && before != told {
		return fmt.Errorf("the transfer %d was answered as %s, and later as %s", i, before, told)
	}
	s.outcomes[i] = told
	return nil
}
