package console

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// topicRow is a topic of the outbox.
type topicRow struct {
	Name          string
	Oldest, Ready time.Time
	Waits         []operate.TopicWait
	Paused        *operate.Pause // the whole topic
	Keys          int            // of it that are paused
}

// topicRows are the topics of which messages wait, and those that are paused.
func (q *request) topicRows() ([]topicRow, error) {
	topics, err := q.Operate.Outbox.Topics(q.ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := q.Operate.Outbox.Pauses(q.ctx)
	if err != nil {
		return nil, err
	}
	return rowsOf(topics, pauses), nil
}

// rowsOf are the lines of topics.
func rowsOf(topics []outbox.Topic, pauses []operate.Pause) []topicRow {
	rows := make([]topicRow, 0, len(topics))
	for _, t := range topics {
		row := topicRow{Name: t.Name, Oldest: t.Oldest, Ready: t.Ready, Waits: operate.WaitsOf(t)}
		for i := range row.Waits {
			row.Waits[i].Key = "" // it is hidden
		}
		for i := range pauses {
			switch p := &pauses[i]; {
			case p.Topic != t.Name:
			case p.Key == "":
				row.Paused = p
			default:
				row.Keys++
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (q *request) topics() error {
	rows, err := q.topicRows()
	if err != nil {
		return err
	}
	return q.render("topics", "Outbox", rows)
}

// messagesBody is a page of messages.
type messagesBody struct {
	Rows   []operate.Message
	Topic  string
	State  outbox.State
	States []outbox.State
	Next   string
}

var messageStates = []outbox.State{"", outbox.StateWaiting, outbox.StateBlocked, outbox.StateFailing, outbox.StateStopped, outbox.StateDelivered}

func (q *request) messages() error {
	form := q.URL.Query()
	f := operate.MessageFilter{State: outbox.State(form.Get("state")), Topic: form.Get("topic"), Window: operate.Window{After: form.Get("after")}}
	if !slices.Contains(messageStates, f.State) {
		return errNotFound
	}
	p, err := q.Operate.Outbox.List(q.ctx, f)
	if err != nil {
		return err
	}
	body := messagesBody{Rows: p.Items, Topic: f.Topic, State: f.State, States: messageStates}
	if p.Next != "" {
		body.Next = link("messages", "topic", f.Topic, "state", string(f.State), "after", p.Next)
	}
	return q.render("messages", "Messages", body)
}

// messageBody is one message.
type messageBody struct {
	operate.Message

	Unreadable string // why its payload is not shown
	Stopped    bool
	Delivered  bool
	From       string // the link of the operation that has added it
	Event      operate.Event
}

func (q *request) message() error {
	m, err := q.Operate.Outbox.Show(q.ctx, q.FormValue("id"))
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		return errNotFound
	case err != nil && m.ID == "":
		return err
	}
	body := messageBody{Message: m, Stopped: m.State == outbox.StateStopped || m.State == outbox.StateFailing, Delivered: m.State == outbox.StateDelivered, From: q.operationOf(m.Operation)}
	if err != nil {
		body.Unreadable = err.Error()
	}
	events, err := q.Operate.EventsByID(q.ctx, m.ID)
	if err != nil {
		return err
	}
	body.Event = events[0]
	if !q.seen {
		body.Message = m.WithoutBody()
	}
	return q.render("message", "Message", body)
}

// operationOf is the link of an operation, "" if none is known.
func (q *request) operationOf(op *operate.OperationName) string {
	if op == nil {
		return ""
	}
	return link("operation", "id", q.seal.operation(store.ID{Scope: op.Scope, Key: op.Key}))
}

// eventBody is what this database knows of an event, whoever has sent it.
type eventBody struct {
	operate.Event

	ID    string // as it was asked for
	Known bool
	Gone  bool
	From  string // the link of its operation
}

// event shows what outbox and inboxes know of an event: its ID is what logs have on both sides.
func (q *request) event() error {
	id := strings.TrimSpace(q.FormValue("id"))
	if len(id) > message.MaxText || !printable.Is(id) {
		return errNotFound
	}
	body := eventBody{ID: id}
	if id != "" {
		list, err := q.Operate.EventsByID(q.ctx, id)
		if err != nil {
			return err
		}
		body.Event = list[0]
		body.Gone = body.State == operate.EventGone
		body.Known = !body.Gone || len(body.Inbox) > 0
		body.From = q.operationOf(body.Operation)
	}
	return q.render("event", "Event", body)
}
