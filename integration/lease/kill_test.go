package lease

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestKillAtEveryPoint: a process is killed at each point of an operation with three phases and two calls, in turn: before and after each
// statement, commit and request, and, with pgx, before each write and read of a socket. Another process finishes the work, asked with
// the same key or as a Completer. Each phase has written once, each call has one effect, and its frozen request never changes.
func TestKillAtEveryPoint(t *testing.T) {
	testenv.Core(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, true)
		k := killing{plan: plan{Opening: o, URL: service.URL, Policy: deduped, Kind: byName, Signal: syscall.SIGKILL}, service: service}
		k.successor = program{db: o.mustOpen(t), url: service.URL, by: "successor", policy: deduped}
		defer k.successor.db.close()
		k.First = true
		k.everywhere(t, "same key", k.sameKey)
		k.First = false
		k.everywhere(t, "Completer", k.completer)
		if name != harness.Pgx {
			return
		}
		for _, k.Kind = range []string{byWrite, byRead} {
			t.Run(k.Kind, func(t *testing.T) {
				testenv.Sample(t, 2)
				k.everywhere(t, "Completer", k.completer)
			})
		}
	})
}

// killing is a process that is killed, and what comes after it.
type killing struct {
	plan

	service   *provider
	successor program
}

// everywhere kills processes at all points, several at a time.
func (k killing) everywhere(t *testing.T, heir string, finish func(t *testing.T) (finish func(key string), stop func())) {
	t.Helper()
	var total int64
	for try := 1; total == 0 && !t.Failed(); try++ { // on a busy machine a process may lose its lease
		k.Key = fmt.Sprintf("%s, %s, not killed, try %d", heir, k.Kind, try)
		points, said, _ := end(t, harness.Start(t, k.plan))
		if strings.HasPrefix(said, "result ") {
			total = points
		} else if try > 100 {
			t.Fatalf("no process comes to its end: %s", said)
		}
	}
	k.successor.wantDone(t, k.service, k.Key, k.Key)
	finishOne, stop := finish(t)
	defer stop()
	var kills atomic.Int64
	var all sync.WaitGroup
	places := make(chan struct{}, 4)
	for at := int64(1); at <= total; at++ {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			k := k
			k.At, k.Key = at, fmt.Sprintf("%s, %s, point %d", heir, k.Kind, at)
			if _, _, killed := end(t, harness.Start(t, k.plan)); killed {
				kills.Add(1)
			}
			finishOne(k.Key)
		})
	}
	all.Wait()
	testenv.Reportf(t, "%s, %s, finished by %s: %d of %d points", k.Opening.Kind, k.Kind, heir, kills.Load(), total)
	if kills.Load() < 8 { // on a busy machine a Completer takes operations over from processes that live
		t.Errorf("vacuous: killed %d times", kills.Load())
	}
}

// sameKey has another process asked for the same.
func (k killing) sameKey(t *testing.T) (finish func(key string), stop func()) {
	t.Helper()
	return func(key string) {
		k.successor.insist(t, key)
		k.successor.wantDone(t, k.service, key, key)
	}, func() {}
}

// completer has a Completer finish what has begun.
func (k killing) completer(t *testing.T) (finish func(key string), stop func()) {
	t.Helper()
	var finished atomic.Int64
	stopCompleter := k.successor.complete(t, func(_ string, err error) {
		if err == nil {
			finished.Add(1)
		}
	})
	finish = func(key string) {
		harness.Until(t, func() error {
			switch state := k.successor.state(t, key); state {
			case store.StateAbsent: // nothing has been done, so its caller asks again
				k.successor.insist(t, key)
			case store.StateDone:
			default:
				return fmt.Errorf("%s is %s, and the Completer does not finish it", key, state)
			}
			return nil
		})
		k.successor.wantDone(t, k.service, key, key)
	}
	return finish, func() {
		stopCompleter()
		if finished.Load() < 5 {
			t.Errorf("vacuous: the Completer has finished %d operations", finished.Load())
		}
	}
}

// TestKillAtProvider: a process is killed while its request is at the provider: before it takes effect, after that, and so that it
// takes effect later than that of its successor.
func TestKillAtProvider(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, true)
		p := plan{Opening: o, URL: service.URL, Policy: deduped}
		successor := program{db: o.mustOpen(t), url: service.URL, by: "successor", policy: deduped}
		defer successor.db.close()
		for _, p.Fate = range []string{killedBefore, killedAfter, late} {
			for _, p.FatePhase = range []string{"charge", "notify"} {
				p = p.killed(t, p.FatePhase+", "+p.Fate)
				successor.insist(t, p.Key)
				successor.wantDone(t, service, p.Key, p.Key)
				if requests, _ := service.of(p.Key, p.FatePhase); len(requests) < 2 {
					t.Errorf("%s: %+v", p.Key, requests)
				}
			}
		}
	})
}

// TestKillWithoutDedupe: a process is killed at each named point, the service does not dedupe, and nothing is said about the calls. No call
// takes effect twice. The operation is done, or unknown if the process was killed between the intent of a call and the next commit.
func TestKillWithoutDedupe(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		testenv.Sample(t, 2)
		o, service := newDatabase(t, name), newProvider(t, false)
		k := killing{plan: plan{Opening: o, URL: service.URL, Kind: byName, Signal: syscall.SIGKILL}, service: service}
		k.successor = program{db: o.mustOpen(t), url: service.URL, by: "successor", ttl: patience}
		defer k.successor.db.close()
		k.everywhere(t, "same key or nothing", k.doneOrUnknown)
	})
}

// doneOrUnknown asks for what is left until it is known to be done, or that its outcome is unknown.
func (k killing) doneOrUnknown(t *testing.T) (finish func(key string), stop func()) {
	t.Helper()
	var done, unknown atomic.Int64
	finish = func(key string) {
		harness.Until(t, func() error {
			_, err := k.successor.do(t.Context(), operation(key))
			switch once.CodeOf(err) {
			case "":
				done.Add(1)
				k.successor.wantDone(t, k.service, key, key)
			case once.CodeUnknown:
				unknown.Add(1)
			default:
				return err
			}
			return nil
		})
		for _, phase := range []string{"charge", "notify"} {
			if requests, effects := k.service.of(key, phase); len(requests) > 1 || len(effects) > 1 {
				t.Errorf("%s: %+v %q", key, requests, effects)
			}
		}
	}
	return finish, func() {
		testenv.Reportf(t, "%s: %d operations are done, %d unknown", k.Opening.Kind, done.Load(), unknown.Load())
		if done.Load() < 5 || unknown.Load() < 5 {
			t.Errorf("vacuous: %d operations are done, %d unknown", done.Load(), unknown.Load())
		}
	}
}
