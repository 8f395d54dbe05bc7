package lease

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
)

// TestStoppedHolderCommitsNothing: a process is stopped for longer than its lease. Another one takes the operation over and finishes it. When the first
// one goes on, it commits nothing.
func TestStoppedHolderCommitsNothing(t *testing.T) {
	testenv.Core(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, true)
		successor := program{db: o.mustOpen(t), url: service.URL, by: "successor", policy: deduped}
		defer successor.db.close()
		points := []plan{
			{Named: "read", At: 1},
			{Named: "begin", At: 2},
			{Named: "committed", At: 1},
			{Named: "swap", At: 1},
			{Named: "swapped", At: 1},
			{Named: "request", At: 1},
			{Named: "answered", At: 2},
			{Named: "swap", At: 3}, // the result
		}
		if name != harness.SQLite { // there a process that is stopped in a transaction holds up all others
			points = append(points, plan{Named: "statement", At: 1}, plan{Named: "commit", At: 1}, plan{Named: "commit", At: 2}, plan{Named: "commit", At: 3})
		}
		var all sync.WaitGroup
		places := make(chan struct{}, 4)
		for _, p := range points {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				p.Opening, p.URL, p.Policy = o, service.URL, deduped
				says := fmt.Sprintf("stopped at %s %d", p.Named, p.At)
				p, sleeper := p.stopped(t, says)
				value := successor.insist(t, p.Key)
				said := wake(t, sleeper)
				if text, ok := strings.CutPrefix(said, "result "); ok && text != value {
					t.Errorf("%s: it says %q, and %q was stored", says, text, value)
				}
				successor.wantDone(t, service, p.Key, says)
			})
		}
		all.Wait()
	})
}

// TestStoppedBeforeItsRequest: a process is stopped before it sends a request, to a service that does not dedupe. Another one has the key
// refused, and calls under another. The request that is sent at last has no effect.
func TestStoppedBeforeItsRequest(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, false)
		successor := program{db: o.mustOpen(t), url: service.URL, by: "successor", policy: tombstone, ttl: patience}
		defer successor.db.close()
		for at, phase := range []string{"charge", "notify"} {
			p := plan{Opening: o, URL: service.URL, Policy: tombstone, Named: "request", At: int64(at + 1)}
			p, sleeper := p.stopped(t, phase)
			successor.insist(t, p.Key)
			wake(t, sleeper)
			requests, _ := service.of(p.Key, phase)
			if len(requests) != 2 || requests[1].key != lease.Key(scope, p.Key, phase, 0) {
				t.Errorf("vacuous: %+v", requests)
			}
			successor.wantDone(t, service, p.Key, phase, phase)
		}
	})
}
