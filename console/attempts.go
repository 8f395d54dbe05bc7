package console

import (
	"slices"

	"github.com/oncelib/once/operate"
)

// attemptsBody has the last attempts at any key.
type attemptsBody struct {
	Rows     []operate.LoggedAttempt
	Outcome  string
	Outcomes []string
}

// outcomes has the outcomes that a user can choose; "" means all outcomes.
var outcomes = []string{"", "executed", "replayed", "conflict", "failed", "unknown", "unavailable"}

func (q *request) attempts() error {
	body := attemptsBody{Outcome: q.URL.Query().Get("outcome"), Outcomes: outcomes}
	if !slices.Contains(outcomes, body.Outcome) {
		return errNotFound
	}
	var err error
	if body.Rows, err = q.Operate.Keys.LastAttempts(q.ctx, body.Outcome); err != nil {
		return err
	}
	return q.render("attempts", "Attempts", body)
}
