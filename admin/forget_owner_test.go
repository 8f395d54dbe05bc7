package admin_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once/admin"
)

// TestForgetRefusesOwners: what a saga has stored is needed for its end, and its package drops it then. The database is not asked.
func TestForgetRefusesOwners(t *testing.T) {
	_, err := admin.New(nil).Forget(t.Context(), admin.ForgetRequest{Scope: "saga/order", Key: "k", Who: "ada", Reason: "asked"})
	if err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("%v", err)
	}
}
