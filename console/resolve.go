package console

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

func (q *request) planResolve() (plan, error) {
	v, err := q.stored()
	if err != nil {
		return plan{}, err
	}
	if v.CallID == "" {
		return plan{}, &refusal{"the operation needs no decision: its outcome is not unknown, or a retry continues the operation"}
	}
	id := q.FormValue("id")
	p := plan{
		What: capital(v.Operation.Meaning(v.Progress)) + ".", Button: "Decide 1 operation", Flags: []string{"KEY", "--scope", quoted(v.Scope), "--call", v.CallID},
		Values: [][2]string{{"id", id}, {"call", v.CallID}}, Fields: "resolve", Back: link("operation", "id", id),
	}
	if v.Call != nil {
		p.Call = v.Call.Phase
	}
	return p, nil
}

func (q *request) resolve(by operate.By) (string, error) {
	v, err := q.stored()
	if err != nil {
		return "", err
	}
	how, err := q.resolution(v)
	if err != nil {
		return "", err
	}
	to := link("operation", "id", q.FormValue("id"))
	if v.Operation.RecoveryPoint == "" && how.RunAgain { // the record is deleted and the key is free again, so the operation has no page
		to = "operations"
	}
	return to, q.Operate.Keys.Decide(q.ctx, by, v.Operation.ID(), how)
}

// resolution returns the decision that the form contains.
func (q *request) resolution(v operate.KeyView) (how lease.Resolution, err error) {
	how.CallID = q.FormValue("call")
	value, status := strings.TrimSpace(q.FormValue("value")), 0
	if s := q.FormValue("status"); s != "" {
		if status, err = strconv.Atoi(s); err != nil || status < 200 || status > 599 {
			return how, &refusal{"the status is not an HTTP status. Try: a status such as 201"}
		}
	}
	way := q.FormValue("way")
	if (way == "call-result" || way == "result") && !json.Valid([]byte(value)) {
		return how, &refusal{"the value of the call is not JSON"}
	}
	switch way {
	case "call-result":
		how.CallValue = json.RawMessage(value)
	case "result":
		if how.Result = json.RawMessage(value); status != 0 {
			how.Result, how.Answer = nil, answerOf(status, "application/json", []byte(value))
		}
	case "failed":
		const notApplied = "OPERATION.not_applied"
		if how.Failure = (&once.Failure{Code: notApplied, Message: value}); status == 0 {
			break
		}
		if status < 400 {
			return how, &refusal{"the status is not the status of a failure. Try: a status such as 422"}
		}
		body, err := json.Marshal(oncehttp.Problem{
			Title: "Not executed", Status: status, Detail: value, Code: notApplied,
			SafeNewKey: v.Operation.RecoveryPoint == "", // the writes of an earlier phase would stay committed
		})
		if err != nil {
			return how, err
		}
		how.Failure, how.Answer = nil, answerOf(status, "application/problem+json", body)
	case "run-again":
		how.RunAgain, how.KeyVoided = true, q.FormValue("voided") != ""
	default:
		return how, &refusal{"no outcome of the call is chosen. Try: choose one of the four outcomes"}
	}
	return how, nil
}

func answerOf(status int, mediaType string, body []byte) *store.Result {
	return &store.Result{Status: status, Header: []store.Field{{Name: "Content-Type", Value: mediaType}}, Body: body}
}

// capital returns s with a capital letter at its beginning.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
