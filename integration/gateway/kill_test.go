package gateway

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

const (
	codeUnknown = "CONFLICT.idempotency.unknown"
	codeOmitted = "CONFLICT.idempotency.result_unavailable"
)

var kinds = []string{harness.Pgx, harness.SQLite}

// open returns a gateway of this process on a database; kind "" has no store.
func open(t *testing.T, s *service, d harness.Database, policy gateway.Policy) http.Handler {
	t.Helper()
	var ops store.Operations
	switch d.Kind {
	case "":
	case harness.Pgx:
		pgxs, _ := harness.OpenPgx(t, d)
		ops = pointed[pgx.Tx](pgxs, func(string) {})
	default:
		sqls, _ := harness.OpenSQL(t, d)
		ops = pointed[*sql.Tx](sqls, func(string) {})
	}
	g, err := newGateway(s.serving, s.db, ops, policy, func(string) {})
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

// seeReceipts waits until the service has answered. With check it sends requests until one is answered in time, so that the gateway looks at its receipt.
func seeReceipts(t *testing.T, g http.Handler, policy gateway.Policy) {
	t.Helper()
	if policy != gateway.PolicyCheck {
		final(t, g, "the service listens", "")
		return
	}
	n := 0
	harness.Until(t, func() error {
		n++
		key := fmt.Sprint("the service writes receipts ", n)
		if a := ask(g, key, ""); !a.isPaid(key) || a.Stored {
			return fmt.Errorf("no request is answered at once: %v", a)
		}
		return nil
	})
}

// modes are the policies that are proven, each with its store.
func modes(t *testing.T, kinds []string, test func(t *testing.T, d harness.Database, policy gateway.Policy)) {
	t.Helper()
	for _, policy := range []gateway.Policy{gateway.PolicyStop, gateway.PolicyCheck} {
		t.Run(string(policy), func(t *testing.T) {
			harness.Each(t, kinds, func(t *testing.T, kind string) { test(t, harness.Migrated(t, kind, nil), policy) })
		})
	}
	t.Run("receipt alone", func(t *testing.T) {
		t.Parallel()
		test(t, harness.Database{}, "")
	})
}

// TestServiceDies: the service is killed before and after its commit and in its answer, is slow past the timeout, fails after its commit, and
// answers 503 after its commit. With stop no key takes effect twice, and lost answers are unknown. With receipts each key
// takes effect once and is answered.
func TestServiceDies(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	modes(t, harness.Servers, func(t *testing.T, d harness.Database, policy gateway.Policy) {
		s := newService(t)
		g := open(t, s, d, policy)
		seeReceipts(t, g, policy)
		fates := []string{"", killedBefore, killedAfter, killedInAnswer, failsAfter, proxied503, slow}
		if policy == gateway.PolicyCheck {
			fates = append(fates, tooLate)
		}
		unknown := 0
		for _, fate := range fates {
			key := "fate (" + strings.ReplaceAll(fate, ",", "") + ")"
			a := final(t, g, key, fate)
			effects := s.effects(t, key)
			switch {
			case a.isPaid(key) && effects == 1:
			case policy == gateway.PolicyStop && effects <= 1 && a.Body == codeUnknown:
				unknown++
			case policy == gateway.PolicyStop && effects == 1 && (fate == failsAfter && a.Status == 500 || fate == killedInAnswer):
			default:
				t.Errorf("%s: %v, and %d effects", key, a, effects)
			}
		}
		if n := s.forwards(t); policy != "" && n > 1 {
			t.Errorf("one operation was forwarded %d times", n)
		}
		switch {
		case policy == gateway.PolicyStop && unknown == 0:
			t.Error("vacuous: nothing was unknown")
		case policy == gateway.PolicyCheck && s.tombstones(t) == 0:
			t.Error("vacuous: there was no tombstone")
		}
	})
}

// TestServiceDiesWithoutReceipts: behind a gateway with check a service commits and writes no receipt, as one that is not wired to once. It is killed
// after its commit and before its answer, as the first request of the route and after answered ones, and the gateway is another one for the
// retry: nothing is executed again, and the outcome is unknown. A service beside it, which writes receipts, is repaired all the same.
func TestServiceDiesWithoutReceipts(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		for _, mute := range []bool{true, false} {
			t.Run(map[bool]string{true: "no receipts", false: "receipts"}[mute], func(t *testing.T) {
				s, d := startService(t, mute), harness.Migrated(t, kind, nil)
				fates := []string{killedAfter, killedAfter, killedBefore, proxied503}
				if !mute {
					seeReceipts(t, open(t, s, d, gateway.PolicyCheck), gateway.PolicyCheck)
				}
				for n, fate := range fates {
					key := fmt.Sprintf("%d (%s)", n, fate)
					ask(open(t, s, d, gateway.PolicyCheck), key, fate)
					a := final(t, open(t, s, d, gateway.PolicyCheck), key, fate) // the first request may not have reached a service that was just killed
					effects, arrivals := s.effects(t, key), s.arrivals(t, key)
					switch {
					case mute && a.Body == codeUnknown && arrivals <= 1 && effects <= arrivals:
					case !mute && a.isPaid(key) && effects == 1:
					default:
						t.Errorf("%s: %v, %d effects, %d forwards", key, a, effects, arrivals)
					}
					if mute && n == 0 {
						seeReceipts(t, open(t, s, d, gateway.PolicyCheck), gateway.PolicyCheck) // it sees none
					}
				}
				if tombstones := s.tombstones(t); mute == (tombstones > 0) {
					t.Errorf("%d tombstones", tombstones)
				}
				if mute {
					harness.Until(t, func() error { // a slow service may commit after the gateway has answered
						if lost := s.count(t, "select count(*) from effect where key like '%(%)'"); lost < 2 {
							return fmt.Errorf("vacuous: %d effects whose answer was lost", lost)
						}
						return nil
					})
				}
			})
		}
	})
}

// TestGatewayDies: the gateway is killed at each point: around each thing that it asks of its store, and each call of its socket to the
// service. Another one has the same promise to keep.
func TestGatewayDies(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	modes(t, kinds, func(t *testing.T, d harness.Database, policy gateway.Policy) {
		everywhere(t, d, policy, syscall.SIGKILL)
	})
}

// TestGatewayDiesInAStream: the gateway is killed at each point of a forward whose answer streams, which is stored at its end. What it has told is
// lost with it: with stop the key is unknown, with receipts the receipt is the answer.
func TestGatewayDiesInAStream(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, policy := range []gateway.Policy{gateway.PolicyStop, gateway.PolicyCheck} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s, d := newService(t), harness.Migrated(t, harness.SQLite, nil)
			successor := open(t, s, d, policy)
			seeReceipts(t, successor, policy)
			unknown, receipts := 0, 0
			try := 0
			var strike func(at int) bool
			strike = func(at int) bool {
				try++
				key := fmt.Sprintf("point %d (try %d)", at, try)
				c := harness.Start(t, plan{Gateway: &gatewaying{Serving: s.serving, Database: d, Policy: policy, Key: key, Fate: streams, At: int64(at), Signal: syscall.SIGKILL}})
				_, said, killed := end(t, c)
				a := final(t, successor, key, "")
				effects := s.effects(t, key)
				switch {
				case !killed && said.Status != http.StatusOK && effects <= 1 && try < 200: // on a slow machine the service does not answer in time
					return strike(at)
				case a.isPaid(key) && effects == 1 && (killed || policy == gateway.PolicyCheck):
					receipts++ // which also tells an answer that was too large to be stored
				case policy == gateway.PolicyStop && a.Body == codeUnknown && effects <= 1 && killed:
					unknown++
				case policy == gateway.PolicyStop && a.Body == codeOmitted && effects == 1:
				default:
					t.Errorf("%s: %v, after %v, and %d effects", key, a, said, effects)
				}
				return killed
			}
			harness.Loop(t, 8, strike)
			if n := s.forwards(t); n > 1 || policy == gateway.PolicyStop && unknown < 3 || policy == gateway.PolicyCheck && receipts < 3 {
				t.Errorf("an operation was forwarded %d times; %d unknown, %d receipts", n, unknown, receipts)
			}
		})
	}
}

// TestGatewayStops: the gateway is stopped at each point, for longer than its lease lasts. When it goes on, it answers nothing else than
// the other one has.
func TestGatewayStops(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	modes(t, kinds, func(t *testing.T, d harness.Database, policy gateway.Policy) {
		everywhere(t, d, policy, syscall.SIGSTOP)
	})
}

// TestTwoGateways: duplicates of each key come to two gateways at the same time, while the service is killed, slow and failing. Each operation is
// forwarded once, each key takes effect once, and all clients are told the same.
func TestTwoGateways(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, kinds, func(t *testing.T, kind string) {
		s, d := newService(t), harness.Migrated(t, kind, nil)
		both := []http.Handler{open(t, s, d, gateway.PolicyCheck), open(t, s, d, gateway.PolicyCheck)}
		seeReceipts(t, both[0], gateway.PolicyCheck)
		fates := []string{"", killedBefore, killedAfter, killedInAnswer, failsAfter, proxied503, slow, tooLate}
		for n := range 2 * len(fates) {
			key := fmt.Sprint("key ", n)
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					if a := final(t, both[i%2], key, fates[n%len(fates)]); !a.isPaid(key) {
						t.Errorf("%s: %v", key, a)
					}
				})
			}
			all.Wait()
			if effects := s.effects(t, key); effects != 1 {
				t.Errorf("%s: %d effects", key, effects)
			}
		}
		testenv.Reportf(t, "%d tombstones", s.tombstones(t))
		if n := s.forwards(t); n != 1 || s.tombstones(t) == 0 {
			t.Errorf("one operation was forwarded %d times, and there are %d tombstones", n, s.tombstones(t))
		}
	})
}

func everywhere(t *testing.T, d harness.Database, policy gateway.Policy, signal syscall.Signal) {
	t.Helper()
	s := newService(t)
	successor := open(t, s, d, policy)
	seeReceipts(t, successor, policy)
	var unknown, struck, total atomic.Int64
	total.Store(1)
	var all sync.WaitGroup
	places := make(chan struct{}, 3)
	for at := int64(0); at <= total.Load(); at++ {
		run := func(try int) (said answer) {
			key := fmt.Sprintf("point %d (try %d)", at, try)
			c := harness.Start(t, plan{Gateway: &gatewaying{Serving: s.serving, Database: d, Policy: policy, Key: key, At: at, Signal: signal}})
			stopped := signal == syscall.SIGSTOP && at > 0 && c.Wait("stop")
			if stopped {
				c.UntilStopped(t)
			}
			if !stopped {
				points, a, killed := end(t, c)
				if said = a; at == 0 {
					total.Store(points)
				} else if killed {
					struck.Add(1)
				}
			}
			a := final(t, successor, key, "")
			if stopped {
				struck.Add(1)
				c.Signal(syscall.SIGCONT)
				_, said, _ = end(t, c)
			}
			effects := s.effects(t, key)
			switch {
			case a.isPaid(key) && effects == 1:
			case policy == gateway.PolicyStop && a.Body == codeUnknown && effects <= 1:
				unknown.Add(1)
			default:
				t.Errorf("%s: %v, and %d effects", key, a, effects)
			}
			if said.Status == http.StatusCreated && a.Status == http.StatusCreated && said.Body != a.Body {
				t.Errorf("%s: one client is told %v, the other one %v", key, said, a)
			}
			return said
		}
		if at == 0 {
			for try := 1; run(try).Status != http.StatusCreated && !t.Failed() && try < 100; try++ { // on a slow machine the service does not answer in time
			}
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			run(1)
		})
	}
	all.Wait()
	if n := s.forwards(t); policy != "" && n > 1 {
		t.Errorf("one operation was forwarded %d times", n)
	}
	testenv.Reportf(t, "%v: %d points, %d unknown, %d tombstones", signal, struck.Load(), unknown.Load(), s.tombstones(t))
	switch {
	case struck.Load() < 4: // no larger number: on a slow machine some requests time out, and then fewer points are reached
		t.Errorf("vacuous: %d of %d points", struck.Load(), total.Load())
	case policy == gateway.PolicyStop && unknown.Load() == 0:
		t.Error("vacuous: nothing was unknown")
	case policy == gateway.PolicyCheck && s.tombstones(t) == 0:
		t.Error("vacuous: there was no tombstone")
	}
}

// end waits for the end of a gateway.
func end(t *testing.T, c *harness.Child) (points int64, a answer, killed bool) {
	t.Helper()
	lines, killed := c.End(t)
	for _, line := range lines {
		_, _ = fmt.Sscanf(line, "points %d", &points)
		if text, ok := strings.CutPrefix(line, "answer "); ok {
			must(t, json.Unmarshal([]byte(text), &a))
		}
	}
	return points, a, killed
}
