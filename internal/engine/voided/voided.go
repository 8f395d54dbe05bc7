// Package voided contains the result of an operation that was undone before it was executed.
package voided

import (
	"encoding/json"

	"github.com/oncelib/once/store"
)

// Code is the code of this failure. It is stored, so it never changes.
const Code = "CONFLICT.idempotency.undone"

// Result returns the failure of such an operation. RolledBack is set, because no writes were committed.
func Result() store.Result {
	return store.Result{
		Kind: store.ResultFailure, RolledBack: true,
		Body: []byte(`{"code":"` + Code + `","message":"This operation was undone before it was executed."}`),
	}
}

// Is reports whether a stored result belongs to such an operation.
func Is(res store.Result) bool {
	var f struct {
		Code string `json:"code"`
	}
	return res.Kind == store.ResultFailure && json.Unmarshal(res.Body, &f) == nil && f.Code == Code
}
