package onceconnect_test

import (
	"testing"

	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/memstore"
)

// TestWithTx: without the interceptor a handler finds the transaction of oncetest.WithTx.
func TestWithTx(t *testing.T) {
	mine := new(memstore.Tx)
	if tx := onceconnect.Tx[*memstore.Tx](oncetest.WithTx(t, t.Context(), mine)); tx != mine {
		t.Errorf("%p, and the transaction of the test is %p", tx, mine)
	}
	defer func() {
		if recover() == nil {
			t.Error("a transaction of another type is taken")
		}
	}()
	onceconnect.Tx[*memstore.Tx](oncetest.WithTx(t, t.Context(), "another type"))
}
