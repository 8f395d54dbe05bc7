package retry_test

import (
	"slices"
	"testing"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/retry"
)

func TestBudgetGauges(t *testing.T) {
	retry.BudgetFor("gauges.example.com:443").Spend(retry.ClassUnknown)
	values, err := retry.BudgetGauges(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := (gauge.Value{Name: gaugename.RetryBudgetBalance, Label: "gauges.example.com", Number: 9}); !slices.Contains(values, v) {
		t.Errorf("%v is missing in %v", v, values)
	}
}
