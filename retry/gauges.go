package retry

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// BudgetGauges is a [gauge.Func]. For each budget in the list of [Budgets], BudgetGauges returns the number of retries that the budget allows now.
// BudgetGauges leaves out budgets without a limit.
func BudgetGauges(context.Context) ([]gauge.Value, error) {
	var values []gauge.Value
	for _, b := range Budgets() {
		if b.Burst >= 0 {
			values = append(values, gauge.Value{Name: gaugename.RetryBudgetBalance, Label: b.Destination, Number: b.Left})
		}
	}
	return values, nil
}
