package adaptive_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/limit/adaptive"
)

// server serves as fast as it can while no more than knee are inside, and then the slower
// the more there are.
type server struct {
	knee   int
	inside atomic.Int64
}

func (s *server) ServeHTTP(http.ResponseWriter, *http.Request) {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	slower := max(1, float64(n)/float64(s.knee))
	<-time.After(time.Duration((9 + 2*rand.Float64()) * slower * slower * float64(time.Millisecond)))
}

// overload lets a few clients ask for half a minute and then many for a minute. It returns
// how many were served in the last 30 s, and how long that has taken on average.
func overload(t *testing.T, h http.Handler, few, many int) (served int, mean time.Duration) {
	t.Helper()
	begin := time.Now()
	end := begin.Add(90 * time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took time.Duration
	for i := range many {
		wg.Go(func() {
			if i >= few {
				<-time.After(30*time.Second + time.Duration(i)*time.Millisecond)
			}
			for start := time.Now(); start.Before(end); start = time.Now() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
				if w.Code != http.StatusOK {
					<-time.After(200 * time.Millisecond)
					continue
				}
				if start.Sub(begin) > time.Minute {
					mu.Lock()
					served, took = served+1, took+time.Since(start)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if served > 0 {
		mean = took / time.Duration(served)
	}
	return served, mean
}

// A limit that was chosen too high lets the server become slow, and one that is too low
// leaves it idle. The adaptive one goes to where it is good.
func TestFindsTheLimit(t *testing.T) {
	testenv.Prove(t)
	measure := func(t *testing.T, knee int, capacity func() limit.Capacity) (served int, mean time.Duration, places int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			c := capacity()
			l := limit.New(limit.Config{Capacity: c, Limit: 80, Queue: -1})
			served, mean = overload(t, l.Middleware(&server{knee: knee}), 4, 80)
			if s := l.State(); s.Running != 0 || s.Waiting != 0 {
				t.Errorf("%+v", s)
			}
			if c != nil {
				places = c.Limit()
			}
		})
		t.Logf("%d served, in %v each, with %d places in the end", served, mean, places)
		return served, mean, places
	}
	fixed := func() limit.Capacity { return nil }
	adapting := func() limit.Capacity { return adaptive.New(2, 80) } // begins with 20
	served, slow, _ := measure(t, 8, fixed)
	if more, quick, places := measure(t, 8, adapting); more < 3*served || quick > slow/10 || places >= 20 {
		t.Error("it has not become less")
	}
	if _, _, places := measure(t, 60, adapting); places <= 20 {
		t.Error("it has not become more")
	}
}

// Requests that were broken off are not taken for quick ones, and give their place back.
func TestDroppedRequestsAreNotQuick(t *testing.T) {
	c := adaptive.New(1, 1)
	for range 3 {
		release, ok := c.Acquire()
		if !ok {
			t.Fatal("no place")
		}
		if _, ok := c.Acquire(); ok {
			t.Fatal("a second place")
		}
		release(false)
	}
}

func TestInvalidBoundsPanic(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "Try: ") {
			t.Errorf("%q", s)
		}
	}()
	adaptive.New(3, 2)
}

func ExampleNew() {
	capacity := adaptive.New(4, 200)
	limiter := limit.New(limit.Config{Capacity: capacity, Queue: 20})

	w := httptest.NewRecorder()
	limiter.Middleware(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Code, "with", capacity.Limit(), "slots")
	// Output: 404 with 20 slots
}
