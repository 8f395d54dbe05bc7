package console

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/recorded"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// operationBody has all stored facts about an operation.
type operationBody struct {
	operate.KeyView

	ID       string // the ID in its link
	Meaning  string
	Trail    operate.Trail
	Events   []operate.Event // events of an outbox
	Hooks    []operate.Event // webhooks that the operation has sent
	Saga     string          // the link of the saga, if the operation is a saga
	Timeline []event
	Answer   *answer // nil while it is hidden
	Finished bool    // the stored data can be erased
}

// event is a point of the timeline of an operation.
type event struct {
	At     time.Time // zero if not known
	What   string
	Detail string
	Kind   string // the kind of mark: run, replay, refuse, hand, open or event
	Link   string // the link to the page about it, or ""
}

// answer is a stored answer that an operator has asked for.
type answer struct {
	store.Result

	Forgotten bool
}

// mostAttempts is how many of the last attempts a page shows.
const mostAttempts = 50

func (q *request) operation() error {
	id, ok := q.seal.openOperation(q.FormValue("id"))
	if !ok || !q.sees(id.Scope) {
		return errNotFound
	}
	v, err := q.Operate.Keys.Show(q.ctx, operate.KeyQuery{Key: id.Key, Scope: id.Scope, Only: true, Attempts: mostAttempts})
	if err != nil {
		return err
	}
	if !v.Found {
		return errNotFound
	}
	trail, err := q.Operate.Trail(q.ctx, id)
	if err != nil {
		return err
	}
	trail.Events = q.seenEvents(trail.Events)
	body := operationBody{KeyView: v, ID: q.seal.operation(id), Meaning: v.Operation.Meaning(v.Progress), Trail: trail}
	for _, e := range trail.Events {
		if e.Sent != nil {
			body.Hooks = append(body.Hooks, e)
		}
		if e.Sent == nil || e.Topic != "" { // a message of the outbox and a webhook may have the same ID
			body.Events = append(body.Events, e)
		}
	}
	body.Timeline = q.timeline(v, trail)
	body.Finished = v.Operation.State == store.StateDone.String() || v.Operation.State == operate.StateExpired
	if owner.Of(id.Scope) == owner.Saga { // a saga has its own page and its own actions
		body.Saga, body.Finished = link("saga", "id", body.ID), false
	}
	if q.seen {
		rec, err := q.Operate.Keys.Record(q.ctx, id)
		if err != nil {
			return err
		}
		body.Answer = &answer{rec.Result, v.Operation.Result == "omitted"}
	}
	return q.render("operation", "Operation", body)
}

// seenEvents removes webhooks of tenants that the user may not see. An operation can send webhooks to any tenant.
func (q *request) seenEvents(list []operate.Event) []operate.Event {
	for i := range list {
		if s := list[i].Sent; s != nil && !q.seesTenant(s.Tenant) {
			list[i].Sent = nil
			if list[i].Topic == "" {
				// Only the ID and the step stay, because the record of the operation shows them anyway.
				list[i] = operate.Event{ID: list[i].ID, Step: list[i].Step, State: operate.EventGone}
			}
		}
	}
	return list
}

// Fields returns the headers of the answer, without values that identify a client.
func (a answer) Fields() (list []store.Field) {
	for _, f := range a.Header {
		if recorded.IsSecret(f.Name) {
			f.Value = "(hidden)"
		}
		if f.Name != "" {
			list = append(list, f)
		}
	}
	return list
}

// timeline returns the history of an operation, the oldest point first. An entry without its own time comes where the operation begins.
func (q *request) timeline(v operate.KeyView, trail operate.Trail) (list []event) {
	op := v.Operation
	began := "begun"
	// An operation without phases stores only one time, the time of its commit.
	if len(v.Phases) == 0 && v.Call == nil && op.State != store.StateRunning.String() && op.State != store.StateWaiting.String() {
		began = "the operation was executed, and its answer is committed"
	}
	list = append(list, event{At: op.Since, What: began, Kind: "run"})
	for _, e := range v.Phases {
		what := "phase " + words.Shown(e.Phase) + " is committed"
		if e.Failure != "" {
			what = "phase " + words.Shown(e.Phase) + " has failed: " + words.Shown(e.Failure)
		}
		list = append(list, event{What: what, Detail: words.Either(e.ByHand, "an operator has entered the result of the call", ""), Kind: words.Either(e.ByHand, "hand", "run")})
	}
	if c := v.Call; c != nil {
		what := words.Either(c.Tx, "phase ", "call ") + words.Shown(c.Phase) + " was begun"
		list = append(list, event{What: what, Detail: words.Either(v.CallID != "", "the outcome of the call is not known", ""), Kind: "open"})
	}
	for _, s := range trail.Steps {
		list = append(list, event{What: "step " + words.Shown(s.Step) + " is " + s.State, Detail: words.Either(s.Failure != "", "the step has refused with "+words.Shown(s.Failure), ""), Kind: stepKind(s.State)})
	}
	logged := q.eventsOf(trail)
	for _, a := range v.Attempts {
		logged = append(logged, attemptEvent(a))
	}
	for _, e := range v.Audit {
		logged = append(logged, event{At: e.At, What: words.Shown(e.Who) + ": " + e.Action, Detail: strings.Trim(words.Shown(e.Reason)+" · "+words.Shown(e.Detail), " ·"), Kind: "hand"})
	}
	slices.SortStableFunc(logged, func(a, b event) int { return a.At.Compare(b.At) })
	return append(list, logged...)
}

// stepKind returns the mark of a step of a saga.
func stepKind(state string) string {
	return cmp.Or(map[string]string{"calling": "open", "failed": "refuse", "undone": "replay"}[state], "run")
}

// eventsOf returns the history of the events of an operation: when they were added, delivered and applied. Only a user who sees all data gets links.
func (q *request) eventsOf(trail operate.Trail) (list []event) {
	for _, e := range trail.Events {
		name := "event " + e.ID
		if e.Type != "" {
			name = "event " + words.Shown(e.Type)
		}
		of := words.Either(e.Topic != "", "topic "+words.Shown(e.Topic), "")
		if e.Sent != nil {
			list = append(list, q.sentOf(e)...)
			if e.Topic == "" {
				continue
			}
		}
		to := words.Either(q.user.Tenants == nil, link("event", "id", e.ID), "")
		if !e.Added.IsZero() {
			list = append(list, event{At: e.Added, What: name + " added", Detail: of, Kind: "event", Link: to})
		}
		if !e.SentAt.IsZero() {
			list = append(list, event{At: e.SentAt, What: name + " delivered", Detail: of, Kind: "event", Link: to})
		}
		for _, s := range e.Inbox {
			at := s.AppliedAt
			if at.IsZero() {
				at = s.ReceivedAt
			}
			if !at.IsZero() { // an ordered inbox may store no time of a single event
				list = append(list, event{At: at, What: name + " " + strings.ReplaceAll(s.State, "_", " ") + " by the consumer " + words.Shown(s.Consumer), Kind: "event", Link: to})
			}
		}
	}
	return list
}

// sentOf returns the history of a webhook: when it was sent, and the last attempt at each endpoint.
func (q *request) sentOf(e operate.Event) (list []event) {
	name := "webhook " + words.Shown(words.Either(e.Type != "", e.Type, e.ID))
	list = append(list, event{At: e.Added, What: name + " sent", Detail: words.Either(len(e.Sent.Deliveries) == 0, "no endpoint of the tenant gets the webhook", ""), Kind: "event", Link: words.Either(q.user.Tenants == nil, link("event", "id", e.ID), "")})
	for _, d := range e.Sent.Deliveries {
		if d.Last == nil {
			continue
		}
		said := d.Last.Error
		if d.Last.Status != 0 {
			said = "HTTP " + strconv.Itoa(d.Last.Status)
		}
		is := d.State == string(webhook.DeliveryDelivered)
		list = append(list, event{
			At: d.Last.At, What: name + words.Either(is, " delivered to endpoint ", " was not taken by endpoint ") + d.Endpoint, Detail: words.Shown(said),
			Kind: words.Either(is, "event", "refuse"), Link: link("delivery", "endpoint", d.Endpoint, "event", e.ID),
		})
	}
	return list
}

func attemptEvent(a operate.Attempt) event {
	var about []string
	add := func(name, value string) {
		if value != "" {
			about = append(about, name+" "+words.Shown(value))
		}
	}
	add("cause", a.Cause)
	add("request", a.RequestID)
	add("correlation", a.CorrelationID)
	add("process", a.Node)
	if a.Attempt > 0 {
		about = append(about, fmt.Sprintf("attempt %d of the client", a.Attempt))
	}
	about = append(about, fmt.Sprintf("took %v", a.Total.Round(10*time.Microsecond)))
	if a.Waited > 0 {
		about = append(about, fmt.Sprintf("waited %v", a.Waited.Round(10*time.Microsecond)))
	}
	kind := cmp.Or(map[string]string{"executed": "run", "replayed": "replay"}[a.Outcome], "refuse")
	return event{At: a.At, What: strings.ReplaceAll(words.Shown(a.Outcome), "_", " "), Detail: strings.Join(about, " · "), Kind: kind}
}

// show shows the hidden data of a page, after it has written this read to the audit.
func (q *request) show() error {
	if err := q.operator(); err != nil {
		return err
	}
	q.seen = true
	switch id := q.PostFormValue("id"); q.PostFormValue("what") {
	case "operation":
		op, ok := q.seal.openOperation(id)
		if !ok || !q.sees(op.Scope) {
			return errNotFound
		}
		if err := q.looked(operate.Access{Scope: op.Scope, Key: op.Key, Detail: "key and stored answer, on the console"}); err != nil {
			return err
		}
		return q.operation()
	case "saga":
		return q.showSaga()
	case "endpoint", "delivery":
		return q.showHook(q.PostFormValue("what"))
	case "message":
		return q.looking(id, "key, header and payload of message ", (*request).message)
	case "place":
		return q.showPlace(id)
	case "letter":
		return q.looking(id, "key, header and payload of dead letter ", (*request).letter)
	}
	return errNotFound
}

// looking shows hidden data that belongs to no tenant.
func (q *request) looking(id, what string, page func(*request) error) error {
	return everything(func(q *request) error {
		if err := q.looked(operate.Access{Detail: what + words.Shown(id) + ", on the console"}); err != nil {
			return err
		}
		return page(q)
	})(q)
}
