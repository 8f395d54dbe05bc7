package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/recorded"
	"github.com/oncelib/once/store"
)

// operationBody is what is known of an operation.
type operationBody struct {
	operate.KeyView

	ID       string // its link
	Meaning  string
	Trail    operate.Trail
	Timeline []event
	Answer   *answer // nil: hidden
	Finished bool    // it can be forgotten
}

// event is a point of the timeline of an operation.
type event struct {
	At     time.Time // zero: not known
	What   string
	Detail string
	Kind   string // for its mark: run, replay, refuse, hand, open, event
	Link   string // to what it is about; "": none
}

// answer is a stored answer that an operator has asked for.
type answer struct {
	store.Result

	Forgotten bool
}

// mostAttempts is how many attempts a page shows, the last ones.
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
	body := operationBody{KeyView: v, ID: q.seal.operation(id), Meaning: v.Operation.Meaning(v.Progress), Trail: trail}
	body.Timeline = q.timeline(v, trail)
	body.Finished = v.Operation.State == store.StateDone.String() || v.Operation.State == operate.StateExpired
	if q.seen {
		rec, err := q.Operate.Keys.Record(q.ctx, id)
		if err != nil {
			return err
		}
		body.Answer = &answer{rec.Result, v.Operation.Result == "omitted"}
	}
	return q.render("operation", "Operation", body)
}

// Fields are the header of the answer, without values that prove who a client is.
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

// timeline is what has happened to an operation, the oldest first. What has no time of its own stands where the operation begins.
func (q *request) timeline(v operate.KeyView, trail operate.Trail) (list []event) {
	op := v.Operation
	began := "begun"
	if len(v.Phases) == 0 && v.Call == nil && op.State != store.StateRunning.String() && op.State != store.StateWaiting.String() {
		began = "executed, and its answer is committed"
	}
	list = append(list, event{At: op.Since, What: began, Kind: "run"})
	for _, e := range v.Phases {
		what := "phase " + words.Shown(e.Phase) + " is committed"
		if e.Failure != "" {
			what = "phase " + words.Shown(e.Phase) + " has failed: " + words.Shown(e.Failure)
		}
		list = append(list, event{What: what, Detail: words.Either(e.ByHand, "an operator has given its value", ""), Kind: words.Either(e.ByHand, "hand", "run")})
	}
	if c := v.Call; c != nil {
		what := words.Either(c.Tx, "phase ", "call ") + words.Shown(c.Phase) + " was begun"
		list = append(list, event{What: what, Detail: words.Either(v.CallID != "", "its outcome is not known", ""), Kind: "open"})
	}
	for _, s := range trail.Steps {
		list = append(list, event{What: "step " + words.Shown(s.Step) + " is " + s.State, Detail: words.Either(s.Failure != "", "it has said no: "+words.Shown(s.Failure), ""), Kind: stepKind(s.State)})
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

// stepKind is the mark of a step of a saga.
func stepKind(state string) string {
	return cmp.Or(map[string]string{"calling": "open", "failed": "refuse", "undone": "replay"}[state], "run")
}

// eventsOf is what has happened to the events of an operation: added, delivered, applied. Only who sees what has no tenant gets links.
func (q *request) eventsOf(trail operate.Trail) (list []event) {
	for _, e := range trail.Events {
		name := "event " + e.ID
		if e.Type != "" {
			name = "event " + words.Shown(e.Type)
		}
		of := words.Either(e.Topic != "", "topic "+words.Shown(e.Topic), "")
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
			if !at.IsZero() { // an inbox with an order keeps no time of one event
				list = append(list, event{At: at, What: name + " " + strings.ReplaceAll(s.State, "_", " ") + " by the consumer " + words.Shown(s.Consumer), Kind: "event", Link: to})
			}
		}
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
		about = append(about, fmt.Sprintf("attempt %d of its client", a.Attempt))
	}
	about = append(about, fmt.Sprintf("took %v", a.Total.Round(10*time.Microsecond)))
	if a.Waited > 0 {
		about = append(about, fmt.Sprintf("waited %v", a.Waited.Round(10*time.Microsecond)))
	}
	kind := cmp.Or(map[string]string{"executed": "run", "replayed": "replay"}[a.Outcome], "refuse")
	return event{At: a.At, What: strings.ReplaceAll(words.Shown(a.Outcome), "_", " "), Detail: strings.Join(about, " · "), Kind: kind}
}

// show shows what is hidden on a page, and says so in the audit before.
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
	case "message":
		return q.looking(id, "key, header and payload of message ", (*request).message)
	case "letter":
		return q.looking(id, "key, header and payload of dead letter ", (*request).letter)
	}
	return errNotFound
}

// looking shows what has no tenant.
func (q *request) looking(id, what string, page func(*request) error) error {
	return everything(func(q *request) error {
		if err := q.looked(operate.Access{Detail: what + words.Shown(id) + ", on the console"}); err != nil {
			return err
		}
		return page(q)
	})(q)
}
