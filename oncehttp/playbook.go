package oncehttp

import (
	"net/http"
)

// RefundPlaybook returns the dialect of refund services behind several gateways: a
// reversal is a DELETE and carries a key, too; a mismatch is 409, like an operation in
// flight, and the header error_code, which every problem has, tells them apart; JSON is
// compared by what it says ([CanonicalJSON]), because clients encode it anew for every
// try.
func RefundPlaybook() *Preset {
	p := Default()
	p.Name = "refund-playbook"
	p.Methods = append(p.Methods, http.MethodDelete)
	p.Problems = map[string]int{CodeMismatch: http.StatusConflict}
	p.Body = CanonicalJSON
	p.WriteProblem = func(w http.ResponseWriter, p Problem) {
		w.Header().Set("Error_code", p.Code) // error_code, as net/http writes it
		WriteProblem(w, p)
	}
	return p
}
