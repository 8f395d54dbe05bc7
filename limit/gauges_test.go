package limit_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/limit"
)

// TestLimiterGauges: of three requests one is served, one waits, and one is refused.
func TestLimiterGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Queue: 1, Wait: time.Minute})
		handler := l.Middleware(work(time.Second))
		var all sync.WaitGroup
		defer all.Wait()
		for range 3 {
			all.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil)) })
			synctest.Wait()
		}
		values, err := l.Gauges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []gauge.Value{
			{Name: gaugename.LimiterRunning, Number: 1}, {Name: gaugename.LimiterWaiting, Number: 1}, {Name: gaugename.LimiterCapacity, Number: 1},
			{Name: gaugename.LimiterRefused, Label: "exceeded"}, {Name: gaugename.LimiterRefused, Label: "full", Number: 1}, {Name: gaugename.LimiterRefused, Label: "late"},
		}
		if !slices.Equal(values, want) {
			t.Errorf("%v, want %v", values, want)
		}
	})
}
