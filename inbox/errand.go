package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/letter"
)

const (
	keysAtOnce = 4           // that Run works on; as many again that take longer than slowAfter
	slowAfter  = time.Second // then a key gives its place back
)

// errands are the keys that Run works on, several at the same time. A key that takes long delays no other one: it
// gives its place back, and goes on among the slow ones. A key that fails is left alone for a while, and only that one.
type errands struct {
	places, slow chan struct{}
	more         chan struct{} // holds one if there may be more to do of a key that has ended
	working      sync.WaitGroup

	// The next look begins behind these, so that keys that fail or take long hide no others, however many they are. nil and the zero key: at
	// the first. Only the goroutine that looks has them.
	lastLetter *letter.Letter
	lastKey    stream

	mu   sync.Mutex
	keys map[stream]*errand // that are worked on, or left alone
}

type errand struct {
	works    bool
	failures int       // one after the other
	until    time.Time // it is left alone
}

func newErrands() *errands {
	return &errands{
		places: make(chan struct{}, keysAtOnce), slow: make(chan struct{}, keysAtOnce),
		more: make(chan struct{}, 1), keys: map[stream]*errand{},
	}
}

// taken returns keys of which no more is to be done now.
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

// start does the work of a key that is not taken, as soon as there is a place. false: there was none for a while. Only one goroutine calls it.
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

// give moves the work that has just begun to the slow ones when it takes long. leave gives the place back that it has then.
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
