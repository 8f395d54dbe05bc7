package operate

import (
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/outbox"
)

// Message is a message of an outbox, in the form that people and scripts read.
type Message struct {
	ID           string            `json:"id"`
	Topic        string            `json:"topic"`
	Key          string            `json:"key"`
	Seq          int64             `json:"seq"`
	Type         string            `json:"type"`
	Source       string            `json:"source"`
	State        outbox.State      `json:"state"`
	Paused       bool              `json:"paused"` // the topic or the ordering key of the message is paused
	Attempts     int               `json:"attempts"`
	NextAt       time.Time         `json:"next_at,omitzero"`
	FailedAt     time.Time         `json:"failed_at,omitzero"`
	Error        string            `json:"error,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	SentAt       time.Time         `json:"sent_at,omitzero"`
	Trace        string            `json:"trace,omitempty"`
	Operation    *OperationName    `json:"operation,omitempty"` // the operation that has added the message
	Encrypted    bool              `json:"encrypted"`
	PayloadBytes int64             `json:"payload_bytes"`
	Headers      map[string]string `json:"headers,omitempty"` // only in the result of Outbox.Show
	Payload      []byte            `json:"payload,omitempty"` // only in the result of Outbox.Show; base64
}

// WithoutBody returns m without its payload and headers, which may contain data about customers.
func (m Message) WithoutBody() Message {
	m.Headers, m.Payload = nil, nil
	return m
}

func messageOf(e outbox.Entry) Message {
	return Message{
		ID: e.ID, Topic: e.Topic, Key: e.Key, Seq: e.Seq, Type: e.Type, Source: e.Source, State: e.State, Paused: e.Paused,
		Attempts: e.Attempts, NextAt: utc(e.NextAt), FailedAt: utc(e.FailedAt), Error: e.Error, CreatedAt: utc(e.CreatedAt), SentAt: utc(e.SentAt),
		Operation: operationOf(e), Trace: e.Trace, Encrypted: e.Encrypted, PayloadBytes: e.PayloadBytes, Headers: e.Headers, Payload: e.Payload,
	}
}

// Pause is a topic or an ordering key whose messages are not delivered until an operator resumes
// the topic or the key.
type Pause struct {
	Topic  string    `json:"topic"`
	Key    string    `json:"key"` // "" means the whole topic
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// String returns the paused topic, or topic and key, for people.
func (p Pause) String() string {
	if p.Key == "" {
		return "the topic " + words.Shown(p.Topic)
	}
	return "the key " + words.Shown(p.Key) + " of the topic " + words.Shown(p.Topic)
}

// TopicWait is one reason why messages of a topic wait.
type TopicWait struct {
	Topic    string      `json:"topic"`
	Key      string      `json:"key,omitempty"`
	For      outbox.Wait `json:"waits_for"`
	Since    time.Time   `json:"since,omitzero"`
	Oldest   time.Time   `json:"oldest,omitzero"` // when the oldest waiting message of the topic was added
	Reason   string      `json:"reason,omitempty"`
	Node     string      `json:"node,omitempty"`     // the node of the relay that reports the reason
	Messages int64       `json:"messages,omitempty"` // the number of failed messages; at most 500 are counted
	More     bool        `json:"more,omitempty"`     // true if the number of failed messages may be greater than Messages
	Stopped  int64       `json:"stopped,omitempty"`  // the number of messages that wait for an operator

	Now time.Time `json:"-"` // the time of the database's clock when this value was read
}

// String describes in a few words, for people, why the messages wait.
func (w TopicWait) String() string {
	switch w.For {
	case outbox.WaitDown:
		return "down"
	case outbox.WaitHanging:
		return "its destination, which does not answer"
	case outbox.WaitFull:
		return "too many of its messages fail, so the relay sends no others"
	case outbox.WaitRate:
		return "its rate limit"
	case outbox.WaitFailing:
		says := failing(w.Messages, w.More)
		if w.Stopped > 0 {
			says += fmt.Sprintf(", %d stopped", w.Stopped)
		}
		if w.Key != "" {
			says += ", key " + words.Shown(w.Key)
		}
		return says
	case outbox.WaitPaused: // a pause is shown as a Pause
	}
	return string(w.For)
}

func failing(n int64, more bool) string {
	switch {
	case n == 0:
		return "failing messages"
	case n == 1 && !more:
		return "1 failing message"
	case more:
		return fmt.Sprintf("%d failing messages or more", n)
	}
	return fmt.Sprintf("%d failing messages", n)
}
