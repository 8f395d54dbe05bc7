package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// fleet is two gateways, each in a process of its own, on one database: the first one is killed again and again, the second one is stopped.
type fleet struct {
	members  [2]*member
	died     atomic.Int64
	outlived atomic.Int64 // stops that have lasted until another gateway had answered all that was under way
}

// member is one gateway, as its clients see it.
type member struct {
	socket string
	client *http.Client

	mu       sync.Mutex
	underWay map[string]int           // keys
	final    map[string]chan struct{} // closed when a client of this gateway has the final answer for a key
}

func newFleet(t *testing.T, s *service, d harness.Database, policy gateway.Policy) *fleet {
	t.Helper()
	f := &fleet{}
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		over.Wait()
	})
	for i := range f.members {
		m := &member{socket: filepath.Join(s.Dir, fmt.Sprint("gateway", i)), underWay: map[string]int{}, final: map[string]chan struct{}{}}
		m.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", m.socket)
		}}}
		f.members[i] = m
		p := gatewaying{Serving: s.serving, Database: d, Policy: policy, Socket: m.socket, Signal: [...]syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP}[i]}
		over.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				p.At = [...]int64{47, 31, 59, 37, 43, 53, 41}[n%7] // prime: they fall on all steps of requests
				f.run(ctx, t, i, plan{Gateway: &p})
			}
		})
	}
	return f
}

// run is one life of a gateway.
func (f *fleet) run(ctx context.Context, t *testing.T, i int, p plan) {
	c := harness.Start(t, p)
	defer context.AfterFunc(ctx, func() { c.Signal(syscall.SIGKILL) })()
	for c.Wait("stop") {
		c.UntilStopped(t)
		if f.answeredElsewhere(ctx, i) {
			f.outlived.Add(1)
		}
		c.Signal(syscall.SIGCONT)
	}
	if _, killed, err := c.Ends(); killed && ctx.Err() == nil {
		f.died.Add(1)
	} else if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// answeredElsewhere waits until all keys that are under way at a gateway are answered by the other one, and reports whether there were any.
func (f *fleet) answeredElsewhere(ctx context.Context, i int) bool {
	m, other := f.members[i], f.members[1-i]
	m.mu.Lock()
	var keys []string
	for key, n := range m.underWay {
		if n > 0 {
			keys = append(keys, key)
		}
	}
	m.mu.Unlock()
	for _, key := range keys {
		select {
		case <-other.answered(key):
		case <-ctx.Done():
			return false
		}
	}
	return len(keys) > 0
}

// answered returns the channel that is closed when a client has the final answer for a key.
func (m *member) answered(key string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.final[key] == nil {
		m.final[key] = make(chan struct{})
	}
	return m.final[key]
}

func (m *member) count(key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.underWay[key] += n
}

// ask sends one request. A gateway that is dead, or dies meanwhile, says nothing: its client comes again.
func (m *member) ask(ctx context.Context, key, fate string) answer {
	m.count(key, 1)
	defer m.count(key, -1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/pay", strings.NewReader("100"))
	if err != nil {
		return answer{Again: true}
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set(fateHeader, fate)
	resp, err := m.client.Do(r)
	if err != nil {
		return answer{Again: true}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return told(resp.StatusCode, resp.Header, body, err != nil)
}

// TestStormOfProcesses: clients send duplicates of each key to two gateways, of which one is killed and one is stopped for longer than its lease all the time,
// while the service is killed, slow and failing. With stop no operation is forwarded twice. With receipts, also without a store, each key is answered and
// takes effect once. The duplicates of a key are told the same, or that
// it is unknown.
func TestStormOfProcesses(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	modes(t, []string{harness.Pgx}, func(t *testing.T, d harness.Database, policy gateway.Policy) {
		s := newService(t)
		if policy == gateway.PolicyCheck {
			seeReceipts(t, open(t, s, d, policy), policy)
		}
		f := newFleet(t, s, d, policy)
		fates := []string{"", killedBefore, "", killedAfter, "", killedInAnswer, "", failsAfter, "", proxied503, "", slow}
		if policy == gateway.PolicyCheck {
			fates = append(fates, tooLate)
		}
		var all sync.WaitGroup
		places := make(chan struct{}, 4)
		verdicts := make([][4]answer, 4*len(fates))
		for n := range verdicts {
			key, fate := fmt.Sprint("key ", n), fates[n%len(fates)]
			places <- struct{}{}
			all.Go(func() {
				var clients sync.WaitGroup
				for i := range verdicts[n] {
					clients.Go(func() {
						m := f.members[i%2]
						verdicts[n][i] = finally(t, key, func() answer { return m.ask(t.Context(), key, fate) })
						if i < 2 {
							close(m.answered(key))
						}
					})
				}
				clients.Wait()
				<-places
			})
		}
		all.Wait()
		unknown, doubled := 0, 0
		for n, told := range verdicts {
			key, fate := fmt.Sprint("key ", n), fates[n%len(fates)]
			effects, a := s.effects(t, key), told[0]
			if effects > 1 {
				doubled++
			}
			for _, b := range told {
				switch aIsUnknown, bIsUnknown := a.Body == codeUnknown, b.Body == codeUnknown; {
				case policy == gateway.PolicyStop && bIsUnknown: // a lease was over when it asked: its owner may go on
				case policy == gateway.PolicyStop && aIsUnknown:
					a = b
				case a.Status != b.Status || a.Body != b.Body:
					t.Errorf("%s (%s): duplicates are told %v", key, fate, told)
				}
			}
			switch {
			case a.isPaid(key) && effects == 1:
			case policy == gateway.PolicyStop && effects <= 1 && a.Body == codeUnknown:
				if fate == "" {
					unknown++
				}
			case policy == gateway.PolicyStop && effects == 1 && (fate == failsAfter && a.Status == 500 || fate == killedInAnswer):
			default:
				t.Errorf("%s (%s): %v, and %d effects", key, fate, a, effects)
			}
		}
		most, tombstones := s.forwards(t), s.tombstones(t)
		testenv.Reportf(t, "%d keys, %d forwards, at most %d of an operation; %d times killed, %d times stopped until the other one had answered; %d unknown for a gateway, %d tombstones, %d double effects",
			len(verdicts), s.count(t, "select count(*) from arrival"), most, f.died.Load(), f.outlived.Load(), unknown, tombstones, doubled)
		if policy != "" && most > 1 {
			t.Errorf("one operation was forwarded %d times", most)
		}
		switch {
		case f.died.Load() < 3 || f.outlived.Load() < 2:
			t.Errorf("vacuous: killed %d times, stopped %d times", f.died.Load(), f.outlived.Load())
		case policy == gateway.PolicyStop && unknown == 0:
			t.Error("vacuous: nothing was unknown because a gateway had died")
		case policy == gateway.PolicyCheck && (tombstones == 0 || takenOver(t, d) == 0):
			t.Errorf("vacuous: %d tombstones, %d operations were taken over", tombstones, takenOver(t, d))
		case policy == "" && most < 2:
			t.Error("vacuous: nothing was forwarded twice")
		}
	})
}

// takenOver is how many operations have ended under another owner than their first one: a forward is two writes.
func takenOver(t *testing.T, d harness.Database) (n int) {
	t.Helper()
	pool, err := d.Pool(t.Context())
	must(t, err)
	defer pool.Close()
	must(t, pool.QueryRow(t.Context(), "select count(*) from once_operation where fence > 2").Scan(&n))
	return n
}
