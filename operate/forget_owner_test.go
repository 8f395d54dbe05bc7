package operate_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once/operate"
)

// TestForgetRefusesOwners: what a saga has stored is needed for its end, and its package drops it then. The database is not asked.
func TestForgetRefusesOwners(t *testing.T) {
	_, err := operate.NewKeys(nil).Forget(t.Context(), operate.By{Who: "ada", Reason: "asked"}, operate.ForgetRequest{Scope: "saga/order", Key: "k"})
	if err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("%v", err)
	}
}
