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
	Paused        *outbox.TopicWait // the pause of the whole topic, or nil
	Keys          outbox.TopicWait  // the paused keys of the topic
	Partly        bool              // some messages of the topic are held back, so Ready is not known
}

// mostOfTopics is about how many rows a page of topics reads.
const mostOfTopics = 1800

// rowsOf returns the lines of topics.
func rowsOf(topics []outbox.Topic) []topicRow {
	rows := make([]topicRow, 0, len(topics))
	for _, t := range topics {
		row := topicRow{Name: t.Name, Oldest: t.Oldest, Ready: t.Ready, Waits: operate.WaitsOf(t)}
		for i := range row.Waits {
			row.Waits[i].Key = "" // keys are hidden
		}
		for _, w := range t.Waits {
			switch {
			case w.For == outbox.WaitPaused && w.Key == "":
				row.Paused = &w
			case w.For == outbox.WaitPaused:
				row.Keys, row.Partly = w, true
			case w.For == outbox.WaitFailing:
				row.Partly = true
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// topicsBody is a page of topics.
type topicsBody struct {
	Rows []topicRow
	Next string
}

func (q *request) topics() error {
	p, err := q.Operate.Outbox.TopicsUpTo(q.ctx, q.URL.Query().Get("after"), mostOfTopics)
	if err != nil {
		return err
	}
	body := topicsBody{Rows: rowsOf(p.Items)}
	if p.Next != "" {
		body.Next = link("outbox", "after", p.Next)
	}
	return q.render("topics", "Outbox", body)
}

// messagesBody is a page of messages.
type messagesBody struct {
	Rows   []operate.Message
	Topic  string
	State  outbox.State
	States []outbox.State
	Cut    bool
	ByKey  bool // ordered by key and not by age
	Next   string
}

var messageStates = []outbox.State{"", outbox.StateWaiting, outbox.StateBlocked, outbox.StateFailing, outbox.StateStopped, outbox.StateDelivered}

// mostOfBlocked is about how many rows a page of blocked messages reads.
const mostOfBlocked = 1400

func (q *request) messages() error {
	form := q.URL.Query()
	after, ok := q.seal.open(sealedCursor, form.Get("after")) // the cursor may contain a key
	f := operate.MessageFilter{State: outbox.State(form.Get("state")), Topic: form.Get("topic"), Window: operate.Window{After: after}, Most: mostOfBlocked}
	if !ok || !slices.Contains(messageStates, f.State) {
		return errNotFound
	}
	p, err := q.Operate.Outbox.List(q.ctx, f)
	if err != nil {
		return err
	}
	body := messagesBody{Rows: p.Items, Topic: f.Topic, State: f.State, States: messageStates, Cut: p.Cut, ByKey: f.State == outbox.StateBlocked}
	if p.Next != "" {
		body.Next = link("messages", "topic", f.Topic, "state", string(f.State), "after", q.seal.seal(sealedCursor, p.Next))
	}
	return q.render("messages", "Messages", body)
}

// messageBody is one message.
type messageBody struct {
	operate.Message

	Unreadable string // the reason why the payload is not shown
	Stopped    bool
	Delivered  bool
	From       string // the link of the operation that has added the message
	Event      operate.Event
}

func (q *request) message() error {
	m, err := q.Operate.Outbox.Show(q.ctx, q.FormValue("id"))
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		return errNotFound
	// If the message has an ID, only its payload could not be decrypted. The rest of the page is shown.
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

// operationOf returns the link of an operation, or "" if no operation is known.
func (q *request) operationOf(op *operate.OperationName) string {
	if op == nil {
		return ""
	}
	return link("operation", "id", q.seal.operation(store.ID{Scope: op.Scope, Key: op.Key}))
}

// eventBody has all stored facts about an event of any sender.
type eventBody struct {
	operate.Event

	ID    string // the ID that the user has entered
	Known bool
	Gone  bool
	From  string // the link of its operation
}

// event shows an event in the outbox and in the inboxes. The sender and the receiver have the same ID in their logs.
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
