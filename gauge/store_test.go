package gauge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/store/upkeep"
)

type backlog struct {
	is  upkeep.Backlog
	err error
}

func (b backlog) Backlog(context.Context) (upkeep.Backlog, error) { return b.is, b.err }

// TestOperations: a number and an age of each, and the error of a store that does not answer.
func TestOperations(t *testing.T) {
	b := backlog{is: upkeep.Backlog{Running: upkeep.Count{Number: 1, Oldest: time.Second}, Unknown: upkeep.Count{Number: 2, Oldest: time.Minute}, Expired: upkeep.Count{Number: 3, Oldest: time.Hour}}}
	values, err := gauge.Operations(b)(t.Context())
	got := map[string]float64{}
	for _, v := range values {
		got[v.Name] = v.Number
	}
	for name, want := range map[string]float64{
		gaugename.UnfinishedOperations: 1, gaugename.UnfinishedOldestAge: 1, gaugename.UnknownOperations: 2, gaugename.UnknownOldestAge: 60, gaugename.ExpiredOperations: 3, gaugename.ExpiredOldestAge: 3600,
	} {
		if got[name] != want || err != nil {
			t.Errorf("%s is %v, want %v, %v", name, got[name], want, err)
		}
	}
	b.err = errors.New("down")
	if values, err := gauge.Operations(b)(t.Context()); values != nil || !errors.Is(err, b.err) {
		t.Errorf("%v, %v", values, err)
	}
}
