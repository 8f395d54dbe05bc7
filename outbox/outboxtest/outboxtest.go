// Package outboxtest checks that an [outbox.Publisher] keeps its contract (the rules in the documentation of
// outbox.Publisher):
//
//	func TestPublisherKeepsTheContract(t *testing.T) {
//		outboxtest.Run(t, outboxtest.Destination{
//			Publisher: mybroker.Publisher(conn),
//			Topics:    []string{"refunds", "payouts"},
//			Received:  readAll,
//		})
//	}
package outboxtest

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// Destination describes a publisher, and the destination to which this publisher delivers
// messages.
type Destination struct {
	Publisher outbox.Publisher

	// Topics are the topics that the test uses, at least one. The destination must accept each of these
	// topics.
	Topics []string

	// Received returns every message that has arrived since the last call of Received, in the order of
	// arrival. The result must include every message that was confirmed before the call. Use [Message] to make
	// a message from headers.
	Received func(t *testing.T) []message.Message

	// Reject changes m so that the destination refuses m. The destination must still accept all other
	// messages. The field Reject is nil if the destination never refuses a message.
	Reject func(m *message.Message)

	// Break makes the destination unreachable until restore is called. The field Break is nil if the test
	// cannot make the destination unreachable.
	Break func(t *testing.T) (restore func())
}

// Run checks that the publisher of d keeps the contract of [outbox.Publisher].
func Run(t *testing.T, d Destination) {
	t.Helper()
	if len(d.Topics) == 0 || d.Publisher == nil || d.Received == nil {
		t.Fatal("outboxtest: Publisher, Topics and Received are required")
	}
	t.Run("Empty", d.empty)
	t.Run("ContentIsUnchanged", d.content)
	t.Run("OrderOfKeys", d.order)
	t.Run("LargeBatch", d.largeBatch)
	t.Run("Rejected", d.rejected)
	t.Run("ContextHasEnded", d.contextHasEnded)
	t.Run("ContextEnds", d.contextEnds)
	t.Run("Concurrent", d.concurrent)
	t.Run("Unreachable", d.unreachable)
}

// Message makes a message from the topic, headers and payload that a destination has received. The headers are a
// CloudEvent in binary mode, and the names of its attributes begin with prefix. The parameter escaped says
// whether the values of the headers are percent-encoded.
func Message(topic, prefix string, escaped bool, headers iterator, payload []byte) (message.Message, error) {
	m := message.Message{Topic: topic, Payload: payload, Headers: map[string]string{}}
	for name, value := range headers {
		name = strings.ToLower(name)
		attribute, is := strings.CutPrefix(name, prefix)
		if !is {
			m.Headers[name] = value
			continue
		}
		var err error
		if escaped {
			if value, err = url.PathUnescape(value); err != nil {
				return m, err
			}
		}
		if err = set(&m, attribute, value); err != nil {
			return m, fmt.Errorf("attribute %s: %w", attribute, err)
		}
	}
	return m, nil
}

type iterator = func(yield func(name, value string) bool)

func set(m *message.Message, attribute, value string) (err error) {
	switch attribute {
	case "id":
		m.ID = value
	case "source":
		m.Source = value
	case "type":
		m.Type = value
	case "partitionkey":
		m.Key = value
	case "traceparent":
		m.Trace = value
	case "time":
		m.CreatedAt, err = time.Parse(time.RFC3339Nano, value)
	case "sequence":
		m.Seq, err = strconv.ParseInt(value, 10, 64)
	}
	return err
}

// batch makes n messages. They get the given number of keys in turn, or no key if keys is 0.
func (d *Destination) batch(n, keys int) []message.Message {
	run := once.NewKey()[24:]
	messages := make([]message.Message, n)
	for i := range messages {
		messages[i] = message.Message{
			Topic: d.Topics[0], Type: "test.done", Source: "outboxtest", ID: once.NewKey(), Delivery: 1,
			Payload: fmt.Appendf(nil, `{"message":%d}`, i), CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
		}
		if keys > 0 {
			messages[i].Key = fmt.Sprintf("%s-%d", run, i%keys)
			messages[i].Seq = int64(i/keys) + 1
		}
	}
	return messages
}

// publish publishes all messages, and fails the test unless the destination confirms all of them.
func (d *Destination) publish(t *testing.T, messages []message.Message) {
	t.Helper()
	errs := d.Publisher.Publish(t.Context(), messages)
	d.checkLength(t, errs, messages)
	for i, err := range errs {
		if err != nil {
			t.Fatalf("message %d of %d: %v", i, len(messages), err)
		}
	}
}

func (d *Destination) checkLength(t *testing.T, errs []error, messages []message.Message) {
	t.Helper()
	if errs != nil && len(errs) != len(messages) {
		t.Fatalf("Publish has returned %d errors for %d messages", len(errs), len(messages))
	}
}

// check fails the test unless the first arrivals of each key are in the order of the messages, and each
// confirmed message has arrived. A message is confirmed if its error in errs is nil.
func (d *Destination) check(t *testing.T, messages []message.Message, errs []error) {
	t.Helper()
	d.checkLength(t, errs, messages)
	arrived := map[string]int{} // place of the first arrival, by ID
	for i, m := range d.Received(t) {
		if _, again := arrived[m.ID]; !again {
			arrived[m.ID] = i
		}
	}
	type topicKey struct{ topic, key string }
	last := map[topicKey]int{} // the last message of the key
	for i, m := range messages {
		place, here := arrived[m.ID]
		if !here && (errs == nil || errs[i] == nil) {
			t.Errorf("Publish has confirmed message %d, but the message has not arrived", i)
		}
		if m.Key == "" {
			continue
		}
		at := topicKey{m.Topic, m.Key}
		if before, follows := last[at]; follows {
			was, there := arrived[messages[before].ID]
			if here && (!there || was > place) {
				t.Errorf("message %d of key %s has arrived before message %d", i, m.Key, before)
			}
			if errs != nil && errs[before] != nil && errs[i] == nil {
				t.Errorf("Publish has confirmed message %d of key %s, although the earlier message %d of the key has failed: %v", i, m.Key, before, errs[before])
			}
		}
		last[at] = i
	}
}

func (d *Destination) empty(t *testing.T) {
	for _, none := range [][]message.Message{nil, {}} {
		if errs := d.Publisher.Publish(t.Context(), none); len(errs) != 0 {
			t.Errorf("errors: %v", errs)
		}
	}
}

func (d *Destination) content(t *testing.T) {
	d.Received(t)
	sent := d.batch(4, 1)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	sent[0].Payload = every
	sent[0].Headers = map[string]string{"content-type": "application/octet-stream", "tenant": "a b=c;d", "x-empty-not": "0"}
	sent[1].Payload = nil
	sent[2].Key, sent[2].Type, sent[2].Source = `Zoë "50 %" 日本`, "test.ünusual", "/source?x=y z"
	sent[2].Seq = 1
	sent[2].Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	sent[3].Key, sent[3].Seq = "", 0
	d.publish(t, sent)
	got := map[string]message.Message{}
	for _, m := range d.Received(t) {
		got[m.ID] = m
	}
	for i, want := range sent {
		m, here := got[want.ID]
		if !here {
			t.Errorf("message %d has not arrived", i)
			continue
		}
		if m.Topic != want.Topic || m.Key != want.Key || m.Type != want.Type || m.Source != want.Source || m.Seq != want.Seq || m.Trace != want.Trace || !m.CreatedAt.Equal(want.CreatedAt) {
			t.Errorf("message %d:\n sent %+v\n got  %+v", i, want, m)
		}
		if !slices.Equal(m.Payload, want.Payload) {
			t.Errorf("message %d: payload %q, want %q", i, m.Payload, want.Payload)
		}
		for name, value := range want.Headers {
			if m.Headers[name] != value {
				t.Errorf("message %d: header %s is %q, want %q; all headers: %v", i, name, m.Headers[name], value, maps.Collect(maps.All(m.Headers)))
			}
		}
	}
}

func (d *Destination) order(t *testing.T) {
	d.Received(t)
	messages := append(d.batch(300, 10), d.batch(50, 0)...)
	for i := range messages {
		messages[i].Topic = d.Topics[i%3%len(d.Topics)] // 10 keys: each is in every topic
	}
	d.publish(t, messages)
	d.check(t, messages, nil)
}

func (d *Destination) largeBatch(t *testing.T) {
	d.Received(t)
	messages := d.batch(1000, 250)
	d.publish(t, messages)
	d.check(t, messages, nil)
}

func (d *Destination) rejected(t *testing.T) {
	if d.Reject == nil {
		t.Skip("Destination.Reject is nil, so the test has no message that the destination refuses")
	}
	d.Received(t)
	messages := d.batch(60, 5)
	const refused = 17
	d.Reject(&messages[refused])
	errs := d.Publisher.Publish(t.Context(), messages)
	d.check(t, messages, errs)
	for i, m := range messages {
		of := m.Key == messages[refused].Key && i >= refused
		switch {
		case errs == nil || of != (errs[i] != nil):
			t.Fatalf("message %d has the key of the refused message, and its error is: %v; all errors: %v", i, of, errs)
		case of && outbox.IsUnavailable(errs[i]):
			t.Errorf("the destination refuses message %d, but the error says that the destination is not available: %v", i, errs[i])
		case i > refused && retry.IsPermanent(errs[i]):
			t.Errorf("message %d only follows the refused message of its key, but its error is permanent: %v", i, errs[i])
		}
	}
	var later []message.Message
	for i, m := range messages {
		if i > refused && m.Key == messages[refused].Key {
			later = append(later, m)
		}
	}
	d.publish(t, later)
	d.check(t, later, nil)
}

func (d *Destination) contextHasEnded(t *testing.T) {
	d.Received(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	messages := d.batch(20, 4)
	errs := d.Publisher.Publish(ctx, messages)
	d.check(t, messages, errs)
	for i := range messages {
		if errs == nil || errs[i] == nil {
			t.Fatalf("Publish has confirmed message %d although its context had ended", i)
		}
	}
}

// contextEnds cancels the context at several moments of a call of Publish. Messages may arrive after the end,
// but in the order of their keys.
func (d *Destination) contextEnds(t *testing.T) {
	d.Received(t)
	for _, after := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond, 3 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		messages := d.batch(300, 30)
		errs := d.Publisher.Publish(ctx, messages)
		cancel()
		d.check(t, messages, errs)
		for tries := 1; errs != nil; tries++ { // a relay retries as well, because the client may still be busy with the cancelled call
			errs = d.Publisher.Publish(t.Context(), messages)
			d.checkLength(t, errs, messages)
			failed := slices.IndexFunc(errs, func(err error) bool { return err != nil })
			if failed < 0 {
				break
			}
			if tries == 10 {
				t.Fatalf("message %d of %d: %v", failed, len(messages), errs[failed])
			}
		}
	}
}

func (d *Destination) concurrent(t *testing.T) {
	d.Received(t)
	const calls = 4
	var all []message.Message
	done := make(chan []error, calls)
	for range calls {
		messages := d.batch(100, 7)
		all = append(all, messages...)
		go func() { done <- d.Publisher.Publish(t.Context(), messages) }()
	}
	for range calls {
		for _, err := range <-done {
			if err != nil {
				t.Error(err)
			}
		}
	}
	d.check(t, all, nil)
}

func (d *Destination) unreachable(t *testing.T) {
	if d.Break == nil {
		t.Skip("Destination.Break is nil, so the test cannot make the destination unavailable")
	}
	d.Received(t)
	messages := d.batch(40, 8)
	restore := d.Break(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	errs := d.Publisher.Publish(ctx, messages)
	restore()
	d.checkLength(t, errs, messages)
	for i := range messages {
		if errs == nil || !outbox.IsUnavailable(errs[i]) {
			t.Fatalf("the destination is not available, but the error of message %d is not outbox.Unavailable; errors: %v", i, errs)
		}
	}
	for waiting := messages; len(waiting) > 0; { // the client may need some calls until it has a connection again
		errs = d.Publisher.Publish(t.Context(), waiting)
		d.checkLength(t, errs, waiting)
		var failed []message.Message
		for i, err := range errs {
			switch {
			case err == nil:
			case !outbox.IsUnavailable(err) || t.Context().Err() != nil:
				t.Fatalf("after the destination is available again: %v", err)
			default:
				failed = append(failed, waiting[i])
			}
		}
		waiting = failed
	}
	d.check(t, messages, nil)
}
