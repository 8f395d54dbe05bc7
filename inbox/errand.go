package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/letter"
)

const (
	keysAtOnce = 4           // that Run works on at once; as many slow ones in addition
	slowAfter  = time.Second // then a key counts as slow and frees its place
)

// errands are the keys that Run works on concurrently. A slow key does not delay other keys: it frees its
// place, and continues among the slow ones. A key that has failed is not tried again for a while; other keys
// continue.
type errands struct {
	places, slow chan struct{}
	more         chan struct{} // holds one element if a finished key may have more work
	working      sync.WaitGroup

	// The next look begins after these, so that many keys that fail or are slow do not hide others. nil and the
	// zero key mean the beginning. Only the goroutine that looks uses these fields.
	lastLetter *letter.Letter
	lastKey    stream

	mu   sync.Mutex
	keys map[stream]*errand // that are being worked on, or wait after a failure
}

type errand struct {
	works    bool
	failures int       // in a row
	until    time.Time // it is not tried before
}

func newErrands() *errands {
	return &errands{
		places: make(chan struct{}, keysAtOnce), slow: make(chan struct{}, keysAtOnce),
		more: make(chan struct{}, 1), keys: map[stream]*errand{},
	}
}

// taken returns the keys that must not be started now.
func (e *errands) taken() map[stream]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, keys := time.Now(), make(map[stream]bool, len(e.keys))
	for s, k := range e.keys {
		if k.works || now.Before(k.until) {
			keys[s] = true
		}
	}
	return keys
}

// start does the work of a key that is not taken, as soon as a place is free. It returns false if no place
// became free for a while. Only one goroutine may call it.
func (e *errands) start(ctx context.Context, s stream, work func() (more bool, err error)) bool {
	wait := time.NewTimer(idle)
	defer wait.Stop()
	select {
	case e.places <- struct{}{}:
	case <-wait.C:
		return false
	case <-ctx.Done():
		return false
	}
	e.mu.Lock()
	k := e.keys[s]
	if k == nil {
		k = &errand{}
		e.keys[s] = k
	}
	k.works = true
	e.mu.Unlock()
	leave := e.give()
	e.working.Go(func() {
		defer leave()
		more, err := work()
		e.ended(s, more, err)
	})
	return true
}

// give moves new work to the slow ones if it takes long. The returned leave releases the place that the work
// has at that time.
func (e *errands) give() (leave func()) {
	var mu sync.Mutex
	place, ended := e.places, false
	var slow *time.Timer
	slow = time.AfterFunc(slowAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		select {
		case e.slow <- struct{}{}:
			<-place
			place = e.slow
		// All places for slow work are taken too, so the work keeps its place for now.
		default:
			slow.Reset(slowAfter)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		slow.Stop()
		<-place
	}
}

func (e *errands) ended(s stream, more bool, err error) {
	e.mu.Lock()
	k := e.keys[s]
	k.works = false
	// A key without failures needs no entry: the next look finds its work again.
	if err == nil {
		delete(e.keys, s)
	} else {
		k.failures++
		k.until = time.Now().Add(pause(k.failures))
	}
	e.mu.Unlock()
	if more && err == nil {
		select {
		case e.more <- struct{}{}:
		default:
		}
	}
}
