package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/letter"
)

const (
	keysAtOnce = 4           // the number of keys that Run works on at the same time; the same number of slow keys can run in addition
	slowAfter  = time.Second // after this time a key counts as slow, and releases its place
)

// errands is the set of keys that Run works on concurrently. A slow key does not delay other keys: it
// releases its place, and continues in a place for slow keys. After a failure of a key, Run waits before it tries
// this key again; other keys continue.
type errands struct {
	places, slow chan struct{}
	more         chan struct{} // holds one element if a finished key may have more work
	working      sync.WaitGroup

	// The next look begins after these two, so that many failing or slow keys do not hide the keys behind
	// them. nil and the zero key mean the beginning. Only the goroutine of Run uses these fields.
	lastLetter *letter.Letter
	lastKey    stream

	mu   sync.Mutex
	keys map[stream]*errand // keys that Run works on, or that wait after a failure
}

// errand is the state of the work of one key.
type errand struct {
	works    bool      // a goroutine works on the key now
	failures int       // in a row
	until    time.Time // the key is not tried before this time
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

// start does the work of a key in a new goroutine, as soon as a place is free. It returns false if no
// place became free within the pause idle. Only the goroutine of Run calls start.
func (e *errands) start(ctx context.Context, s stream, work func() (more bool, err error)) bool {
	wait := time.NewTimer(idle)
	defer wait.Stop()
	select {
	case e.places <- struct{}{}:
	case <-wait.C:
		// All places are taken. Run does its other work meanwhile, such as the report of gaps.
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

// give moves work that takes long from its place to a place for slow work. The returned function leave
// releases the place that the work has at that time.
func (e *errands) give() (leave func()) {
	var mu sync.Mutex
	place, ended := e.places, false
	var slow *time.Timer
	slow = time.AfterFunc(slowAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		// The work has ended and has released its place already.
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

// ended records the end of the work of a key.
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
		// An element in the channel is enough: one look finds the work of all keys.
		case e.more <- struct{}{}:
		default:
		}
	}
}
