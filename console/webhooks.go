package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/webhook"
)

// webhookActions returns the actions on endpoints and deliveries.
func webhookActions() []action {
	return []action{
		{"webhook-resend", "Send a webhook again", "once webhook resend", "Delivers an event to an endpoint again, at once. The delivery has the same webhook-id, so a receiver that has applied the event treats it as a duplicate.", (*request).planHookResend, (*request).hookResend},
		{"webhook-recover", "Recover deliveries", "once webhook recover", "Sends the events of a period again: the events whose attempts have all failed, or the events that were never sent to the endpoint.", (*request).planHookRecover, (*request).hookRecover},
		{"webhook-enable", "Enable an endpoint", "once webhook enable", "Enables an endpoint that was disabled by an operator, by an answer with 410, or by too many failures. The waiting events of the endpoint are sent first.", (*request).planHookEnable, (*request).hookEnable},
		{"webhook-disable", "Disable an endpoint", "once webhook disable", "Stops sending to an endpoint. The waiting events of the endpoint stay stored.", (*request).planHookDisable, (*request).hookDisable},
	}
}

// mostHooks is how many endpoints, deliveries or attempts a page reads at most to fill its list.
const mostHooks = 2000

// endpointsBody is a page of endpoints of webhooks.
type endpointsBody struct {
	Rows    []endpointRow
	State   string
	States  []string
	Tenant  string
	Tenants []string // the tenants that the user can choose; nil means any tenant
	Cut     bool
	Most    int
	Next    string
}

// endpointRow is an endpoint in a list. The page shows only the host of its URL, because some services put a secret into the path.
type endpointRow struct {
	operate.Endpoint

	Host string
}

func rowOf(e operate.Endpoint) endpointRow {
	row := endpointRow{Endpoint: e}
	if u, err := url.Parse(e.URL); err == nil {
		row.Host = u.Host
	}
	return row
}

var endpointStates = []string{"", operate.EndpointActive, operate.EndpointFailing, operate.EndpointOpen, operate.EndpointDisabled}

func (q *request) endpoints() error {
	form := q.URL.Query()
	tenant, err := q.ofTenant()
	if err != nil {
		return err
	}
	body := endpointsBody{State: form.Get("state"), States: endpointStates, Tenant: tenant, Tenants: q.user.Tenants, Most: mostHooks}
	if !slices.Contains(endpointStates, body.State) {
		return errNotFound
	}
	p, err := q.Operate.Hooks.Endpoints(q.ctx, operate.EndpointFilter{State: body.State, Tenant: tenant, Most: mostHooks, Window: operate.Window{After: form.Get("after")}})
	// If the tables are missing, the service sends no webhooks, and the list is empty.
	if err != nil && !sqlguard.IsMissing(err) {
		return err
	}
	for _, e := range p.Items {
		if q.seesTenant(e.Tenant) {
			body.Rows = append(body.Rows, rowOf(e))
		}
	}
	if body.Cut = p.Cut; p.Next != "" {
		body.Next = link("endpoints", "state", body.State, "tenant", tenant, "after", p.Next)
	}
	return q.render("endpoints", "Webhook endpoints", body)
}

// ofTenant returns the tenant that the user has chosen. A user who sees all data may choose "", which means all tenants.
func (q *request) ofTenant() (string, error) {
	if q.user.Tenants == nil {
		return q.FormValue("tenant"), nil
	}
	tenant, _, err := q.tenant()
	return tenant, err
}

// seesTenant reports whether the user may see the data of a tenant.
func (q *request) seesTenant(tenant string) bool {
	return q.user.Tenants == nil || slices.Contains(q.user.Tenants, tenant)
}

// theEndpoint returns the endpoint that the form names, if the user may see it.
func (q *request) theEndpoint() (operate.Endpoint, error) {
	e, err := q.Operate.Hooks.Endpoint(q.ctx, q.FormValue("endpoint"))
	if errors.Is(err, webhook.ErrNotFound) || err == nil && !q.seesTenant(e.Tenant) {
		err = errNotFound
	}
	if err != nil {
		return operate.Endpoint{}, err
	}
	return e, nil
}

// endpointBody is one endpoint, and a page of its deliveries.
type endpointBody struct {
	endpointRow

	Deliveries []operate.Delivery
	Filter     string
	Filters    []string
	Cut        bool
	Most       int
	Next       string
}

var deliveryStates = []string{"", string(webhook.DeliveryWaiting), string(webhook.DeliveryStopped), string(webhook.DeliveryDelivered)}

func (q *request) endpoint() error {
	e, err := q.theEndpoint()
	if err != nil {
		return err
	}
	body := endpointBody{endpointRow: rowOf(e), Filter: q.FormValue("state"), Filters: deliveryStates, Most: mostHooks}
	if !slices.Contains(deliveryStates, body.Filter) {
		return errNotFound
	}
	p, err := q.Operate.Hooks.Deliveries(q.ctx, e.ID, operate.DeliveryFilter{State: body.Filter, Most: mostHooks, Window: operate.Window{After: q.FormValue("after")}})
	if errors.Is(err, webhook.ErrNotFound) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	if body.Deliveries, body.Cut = p.Items, p.Cut; p.Next != "" {
		body.Next = link("endpoint", "endpoint", e.ID, "state", body.Filter, "after", p.Next)
	}
	return q.render("endpoint", "Webhook endpoint", body)
}

// deliveryBody is the delivery of an event to an endpoint.
type deliveryBody struct {
	operate.Delivery

	Endpoint endpointRow
	Attempts []operate.DeliveryAttempt
	Answers  bool   // the answers of the endpoint are shown
	Payload  []byte // the data of the event
	From     string // the link of the operation that has sent the event
	Unread   string // the reason why the payload is not shown
}

func (q *request) delivery() error {
	e, err := q.theEndpoint()
	if err != nil {
		return err
	}
	d, attempts, err := q.Operate.Hooks.Delivery(q.ctx, e.ID, q.FormValue("event"))
	unread := ""
	switch {
	case errors.Is(err, webhook.ErrNotFound):
		return errNotFound
	case err != nil && d.Event == "":
		return err
	case err != nil:
		unread = err.Error()
	}
	body := deliveryBody{Delivery: d, Endpoint: rowOf(e), Attempts: attempts, Unread: unread}
	if d.Operation != nil && q.sees(d.Operation.Scope) {
		body.From = q.operationOf(d.Operation)
	}
	body.Answers = q.seen && q.user.Tenants == nil // an endpoint may have an address inside this network, and a tenant must not read answers of this network
	for i := range attempts {
		if !body.Answers {
			attempts[i].Answer = ""
		}
	}
	if q.seen {
		if body.Payload, err = q.Operate.Hooks.Data(q.ctx, e.ID, d.Event); err != nil {
			body.Unread = err.Error()
		}
	}
	return q.render("delivery", "Webhook", body)
}

// showHook shows the URL of an endpoint or the data of an event, after it has written this read to the audit.
func (q *request) showHook(what string) error {
	e, err := q.theEndpoint()
	if err != nil {
		return err
	}
	page := (*request).endpoint
	detail := "URL of endpoint " + e.ID
	if what == "delivery" {
		page = (*request).delivery
		detail = "data of event " + words.Shown(q.FormValue("event")) + " at endpoint " + e.ID
	}
	if err := q.looked(operate.Access{Scope: e.Tenant, Detail: detail + ", on the console"}); err != nil {
		return err
	}
	return page(q)
}

// named returns words for an endpoint, for use in a sentence.
func (r endpointRow) named() string {
	return "endpoint " + r.ID + " of " + words.Shown(r.Tenant) + " (" + words.Shown(r.Host) + ")"
}

// onEndpoint returns the endpoint that the form names, and the beginning of a plan for it.
func (q *request) onEndpoint() (r endpointRow, p plan, err error) {
	e, err := q.theEndpoint()
	p = plan{Flags: []string{e.ID}, Values: [][2]string{{"endpoint", e.ID}}, Back: link("endpoint", "endpoint", e.ID)}
	return rowOf(e), p, err
}

func (q *request) planHookResend() (plan, error) {
	r, p, err := q.onEndpoint()
	if err != nil {
		return p, err
	}
	d, _, err := q.Operate.Hooks.Delivery(q.ctx, r.ID, q.FormValue("event"))
	switch {
	case err != nil && d.Event == "":
		return p, err
	case r.State == operate.EndpointDisabled:
		return p, &refusal{"the endpoint is disabled, so nothing can be sent to it. Try: enable the endpoint first"}
	case d.State == string(webhook.DeliveryWaiting) && d.DueAt != nil && !d.DueAt.After(r.Now):
		return p, &refusal{"the event is already due for this endpoint; a relay will send it"}
	}
	p.What = "Event " + d.Event + " is sent to " + r.named() + " now, with the same ID and data."
	p.Button, p.Flags, p.Values = "Send 1 event again", append(p.Flags, d.Event), append(p.Values, [2]string{"event", d.Event})
	p.Back = link("delivery", "endpoint", r.ID, "event", d.Event)
	return p, nil
}

func (q *request) hookResend(by operate.By) (string, error) {
	p, err := q.planHookResend() // the plan is made again, because another operator may have sent the event meanwhile
	if err != nil {
		return "", err
	}
	return p.Back, q.Operate.Hooks.Resend(q.ctx, by, q.FormValue("endpoint"), q.FormValue("event"))
}

func (q *request) planHookEnable() (plan, error) {
	r, p, err := q.onEndpoint()
	if err == nil && r.State != operate.EndpointDisabled {
		err = &refusal{"the endpoint is enabled already"}
	}
	p.What, p.Button = capital(r.named())+" gets its waiting events first, and then all new events.", "Enable 1 endpoint"
	return p, err
}

func (q *request) hookEnable(by operate.By) (string, error) {
	p, err := q.planHookEnable()
	if err != nil {
		return "", err
	}
	return p.Back, q.Operate.Hooks.Enable(q.ctx, by, q.FormValue("endpoint"))
}

func (q *request) planHookDisable() (plan, error) {
	r, p, err := q.onEndpoint()
	if err == nil && r.State == operate.EndpointDisabled {
		err = &refusal{"the endpoint is disabled already"}
	}
	p.What = capital(r.named()) + " gets no events until an operator enables the endpoint. Its waiting events stay stored. Events that the service sends meanwhile are not stored for this endpoint. To send these events later, use Recover."
	p.Button = "Disable 1 endpoint"
	return p, err
}

func (q *request) hookDisable(by operate.By) (string, error) {
	p, err := q.planHookDisable()
	if err != nil {
		return "", err
	}
	return p.Back, q.Operate.Hooks.Disable(q.ctx, by, q.FormValue("endpoint"))
}

// period returns the period in a form. The period ends at the latest when the form was made.
func (q *request) period() (p webhook.Period, missed bool, err error) {
	now, err := q.Operate.Keys.Now(q.ctx)
	if err != nil {
		return p, false, err
	}
	if p.Since, err = instant(q.FormValue("since"), now); err != nil {
		return p, false, err
	}
	if p.Since.IsZero() {
		return p, false, &refusal{"the beginning of the period is missing. Try: a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h"}
	}
	if p.Until, err = instant(q.FormValue("until"), now); err != nil {
		return p, false, err
	}
	// The form contains this time, so that the preview and the change have the same deliveries.
	if p.Until.IsZero() {
		p.Until = now
	}
	return p, q.FormValue("missed") != "", nil
}

// instant parses a time, or a duration that ends now. For "" it returns a zero time.
func instant(s string, now time.Time) (time.Time, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, &refusal{words.Shown(s) + " is not a time. Try: 2026-01-31T12:00:00Z, or how long ago, such as 24h"}
	}
	return t, nil
}

func (q *request) planHookRecover() (plan, error) {
	r, p, err := q.onEndpoint()
	if err != nil {
		return p, err
	}
	period, missed, err := q.period()
	if err != nil {
		return p, err
	}
	n, more, err := q.Operate.Hooks.Preview(q.ctx, r.ID, period, missed)
	switch {
	case errors.Is(err, webhook.ErrDisabled):
		return p, &refusal{"the endpoint is disabled, so nothing can be sent to it. Try: enable the endpoint first"}
	case err != nil:
		return p, err
	case n == 0 && !more:
		return p, &refusal{words.Either(missed, "the endpoint has missed no event of this period, so nothing is sent again", "no event of this period has run out of attempts, so nothing is sent again")}
	}
	since, until := period.Since.UTC().Format(time.RFC3339Nano), period.Until.UTC().Format(time.RFC3339Nano)
	p.Flags = append(p.Flags, "--since", since, "--before", until)
	p.Values = append(p.Values, [2]string{"since", since}, [2]string{"until", until})
	how := many(n) + words.Either(n == 1, " delivery that has", " deliveries that have") + " run out of attempts"
	if missed {
		p.Flags, p.Values = append(p.Flags, "--missed"), append(p.Values, [2]string{"missed", "yes"})
		how = many(n) + words.Either(n == 1, " event", " events") + " that were never sent to it"
	}
	p.What = capital(r.named()) + " gets the events that were sent between " + since + " and " + until + ": " + how + words.Either(more, ", or more: the latest were counted", "") + "."
	p.Button, p.Fields = "Recover "+many(n)+words.Either(more, " or more", "")+" matching", "recover"
	return p, nil
}

func (q *request) hookRecover(by operate.By) (string, error) {
	p, err := q.planHookRecover()
	if err != nil {
		return "", err
	}
	period, missed, err := q.period()
	if err != nil {
		return "", err
	}
	if rate := q.FormValue("rate"); rate != "" {
		if period.Rate, err = strconv.ParseFloat(rate, 64); err != nil {
			return "", &refusal{"the rate is not a number. Try: a number of deliveries per second, such as 10"}
		}
	}
	send := q.Operate.Hooks.Recover
	if missed {
		send = q.Operate.Hooks.Replay
	}
	id := q.FormValue("endpoint")
	_, err = q.goOn(func(ctx context.Context) error {
		_, err := send(ctx, by, id, period)
		return err
	})
	return p.Back, err
}

// mostTime limits the time of work that continues after the answer.
const mostTime = time.Hour

// goOn runs do, and waits at most readTime for its end. If do takes longer, it continues in the background, and its error is not shown. If the
// process ends before do, only a part of the work is done.
func (q *request) goOn(do func(ctx context.Context) error) (ended bool, err error) {
	// The channel has room for the error, so that the goroutine can end even after the answer was sent.
	done := make(chan error, 1)
	go func() {
		// The context of the request ends with the answer, so the work needs another context.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.ctx), mostTime)
		defer cancel()
		done <- do(ctx)
	}()
	enough := time.NewTimer(readTime)
	defer enough.Stop()
	select {
	case err := <-done:
		return true, err
	case <-enough.C:
		return false, nil
	}
}
