package retry

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// BudgetGauges is a [gauge.Func] that returns the number of retries that each budget of [Budgets] allows now. Budgets without a limit are left out.
func BudgetGauges(context.Context) ([]gauge.Value, error) {
	var values []gauge.Value
	for _, b := range Budgets() {
		if b.Burst >= 0 {
			values = append(values, gauge.Value{Name: gaugename.RetryBudgetBalance, Label: b.Destination, Number: b.Left})
		}
	}
	return values, nil
}
