package retry

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
)

// BudgetGauges is a [gauge.Func] with what [Budgets] says of each destination. A budget without a limit has no balance.
func BudgetGauges(context.Context) ([]gauge.Value, error) {
	var values []gauge.Value
	for _, b := range Budgets() {
		if b.Burst >= 0 {
			values = append(values, gauge.Value{Name: gaugename.RetryBudgetBalance, Label: b.Destination, Number: b.Left})
		}
	}
	return values, nil
}
