package gauge_test

import (
	"context"
	"errors"
	"strings"
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

// TestOperationsByStateAndName: a number and an age of each, and the error of a store that does not answer.
func TestOperationsByStateAndName(t *testing.T) {
	b := backlog{is: upkeep.Backlog{Running: upkeep.Count{Number: 1, Oldest: time.Second}, Unknown: upkeep.Count{Number: 2, Oldest: time.Minute}, Expired: upkeep.Count{Number: 3, Oldest: time.Hour}}}
	b.is.Names = map[string]upkeep.Named{"pay": {Running: 4, Waiting: 5, Unknown: 6}, "": {Unknown: 7}}
	values, err := gauge.Operations(b)(t.Context())
	got := map[string]float64{}
	for _, v := range values {
		got[strings.TrimSpace(v.Name+" "+v.Label)] = v.Number
	}
	for name, want := range map[string]float64{
		gaugename.UnfinishedOperations: 1, gaugename.UnfinishedOldestAge: 1, gaugename.UnknownOperations: 2, gaugename.UnknownOldestAge: 60, gaugename.ExpiredOperations: 3, gaugename.ExpiredOldestAge: 3600,
		gaugename.NamedUnfinishedOperations + " pay": 9, gaugename.NamedWaitingOperations + " pay": 5, gaugename.NamedUnknownOperations + " pay": 6, gaugename.NamedUnknownOperations: 7,
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
