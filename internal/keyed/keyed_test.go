package keyed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// TestContractUnderRandomFailures: random batches, failures and ends of the context against the contract of a publisher.
func TestContractUnderRandomFailures(t *testing.T) {
	for seed := range uint64(300) {
		contract(t, seed)
	}
}

func contract(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	limit := 1 + r.IntN(8)
	messages := make([]message.Message, r.IntN(60))
	fails := make(map[string]error)
	for i := range messages {
		m := &messages[i]
		m.ID, m.Topic = fmt.Sprint(i), fmt.Sprint("topic ", r.IntN(2))
		if key := r.IntN(5); key > 0 {
			m.Key = fmt.Sprint("key ", key)
		}
		switch r.IntN(60) {
		case 0:
			fails[m.ID] = retry.Permanent(errors.New("permanent"))
		case 1:
			fails[m.ID] = errors.New("of the message")
		case 2:
			fails[m.ID] = outbox.Unavailable(errors.New("unavailable"))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endAfter := int64(r.IntN(200)) // sends; most batches are shorter

	var mu sync.Mutex
	var sends, now atomic.Int64
	began := map[string]bool{}
	busy := map[string]bool{}
	errs := NewSender(limit).Publish(ctx, messages, func(m *message.Message) error {
		if now.Add(1) > int64(limit) {
			t.Errorf("seed %d: more than %d at once", seed, limit)
		}
		key := m.Topic + "/" + m.Key
		mu.Lock()
		if m.Key != "" && busy[key] {
			t.Errorf("seed %d: two of %s at once", seed, key)
		}
		began[m.ID], busy[key] = true, true
		mu.Unlock()
		if sends.Add(1) == endAfter {
			cancel()
		}
		mu.Lock()
		busy[key] = false
		mu.Unlock()
		now.Add(-1)
		return fails[m.ID]
	})
	mu.Lock()
	defer mu.Unlock()
	judge(t, seed, messages, errs, began, fails)
}

func judge(t *testing.T, seed uint64, messages []message.Message, errs []error, began map[string]bool, fails map[string]error) {
	t.Helper()
	if errs == nil {
		errs = make([]error, len(messages))
	}
	stopped := map[string]bool{}
	for i, m := range messages {
		key := m.Topic + "/" + m.Key
		switch {
		case errs[i] == nil && (!began[m.ID] || fails[m.ID] != nil):
			t.Errorf("seed %d: message %d is confirmed: %v, %v", seed, i, began[m.ID], fails[m.ID])
		case m.Key != "" && stopped[key] && (began[m.ID] || errs[i] == nil):
			t.Errorf("seed %d: message %d follows one that has failed, and is sent", seed, i)
		case !began[m.ID] && retry.IsPermanent(errs[i]):
			t.Errorf("seed %d: message %d was not sent, and has failed for good", seed, i)
		}
		if errs[i] != nil {
			stopped[key] = true
		}
	}
}

// TestEndOfContext: Publish returns although a send does not, and what has not been confirmed is Unavailable.
// The send that hangs keeps its slot.
func TestEndOfContext(t *testing.T) {
	synctest.Test(t, testEndOfContext) // the context ends when all that can be confirmed is
}

func testEndOfContext(t *testing.T) {
	s := NewSender(2)
	release, ended := make(chan struct{}), make(chan struct{})
	why := errors.New("the reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	messages := []message.Message{{ID: "hangs", Key: "a"}, {ID: "follows", Key: "a"}, {ID: "is sent"}, {ID: "too"}}
	var sent atomic.Int64
	errs := s.Publish(ctx, messages, func(m *message.Message) error {
		if m.ID == "hangs" {
			<-release
			defer close(ended)
			return nil
		}
		if sent.Add(1) == 2 {
			time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		}
		return nil
	})
	if errs == nil || errs[2] != nil || errs[3] != nil {
		t.Fatal(errs)
	}
	for i := range 2 {
		if !outbox.IsUnavailable(errs[i]) || !errors.Is(errs[i], why) {
			t.Errorf("message %d: %v", i, errs[i])
		}
	}
	if len(s.slots) != 1 {
		t.Errorf("%d slots are held", len(s.slots))
	}
	if errs := s.Publish(t.Context(), messages[2:], func(*message.Message) error { return nil }); errs != nil {
		t.Error(errs)
	}
	close(release)
	<-ended
}

func BenchmarkPublishByKey(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			messages := make([]message.Message, 1000)
			for i := range messages {
				messages[i].Key = fmt.Sprint(i % keys)
			}
			s := NewSender(512)
			for b.Loop() {
				s.Publish(b.Context(), messages, func(*message.Message) error { return nil })
			}
		})
	}
}
