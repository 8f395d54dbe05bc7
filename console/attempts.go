package console

import (
	"net/url"
	"slices"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
)

// attemptsBody is the last attempts at any key.
type attemptsBody struct {
	Rows     []operate.LoggedAttempt
	Outcome  string
	Outcomes []string
}

// outcomes are those to choose from; "" is all.
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

// endpointsBody is a page of endpoints of webhooks.
type endpointsBody struct {
	Rows   []endpointRow
	State  string
	States []string
	Next   string
}

// endpointRow is an endpoint. Of its URL only the host is shown: the rest is a secret of some services.
type endpointRow struct {
	operate.Endpoint

	Host string
}

var endpointStates = []string{"", operate.EndpointActive, operate.EndpointFailing, operate.EndpointDisabled}

func (q *request) endpoints() error {
	form := q.URL.Query()
	body := endpointsBody{State: form.Get("state"), States: endpointStates}
	if !slices.Contains(endpointStates, body.State) {
		return errNotFound
	}
	p, err := q.Operate.Hooks.Endpoints(q.ctx, operate.EndpointFilter{State: body.State, Window: operate.Window{After: form.Get("after")}})
	if err != nil && !sqlguard.IsMissing(err) {
		return err
	}
	for _, e := range p.Items {
		row := endpointRow{Endpoint: e}
		if u, err := url.Parse(e.URL); err == nil {
			row.Host = u.Host
		}
		body.Rows = append(body.Rows, row)
	}
	if p.Next != "" {
		body.Next = link("endpoints", "state", body.State, "after", p.Next)
	}
	return q.render("endpoints", "Webhook endpoints", body)
}
