package natsbroker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/internal/keyed"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

const onTheWay = 512 // the largest number of messages without a confirmation

// Publisher returns a publisher that stores each message in the JetStream stream whose subjects include the topic of the message.
func Publisher(js jetstream.JetStream) outbox.Publisher {
	return &publisher{js: js, sender: keyed.NewSender(onTheWay)}
}

type publisher struct {
	js     jetstream.JetStream
	sender *keyed.Sender
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, messages []message.Message) []error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nc := p.js.Conn()
	if nc.IsClosed() {
		return all(messages, outbox.Closed(closed(nc)))
	}

	// No confirmation comes over a lost connection. Without a connection, the client would keep the messages in memory, and send
	// them long after this call.
	lost := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	// The status is read after the listener was added, so that no change is missed.
	if status := nc.Status(); status != nats.CONNECTED {
		cancel(notConnected(status))
	}
	go func() {
		select {
		case status := <-lost:
			cancel(notConnected(status))
		case <-ctx.Done():
		}
	}()
	return p.sender.Publish(ctx, messages, func(m *message.Message) error { return p.send(ctx, m) })
}

// closed returns the error of a connection that the client will not open again, with the reason. For example, the server has refused
// the user twice in a row, or the program has closed the connection.
func closed(nc *nats.Conn) error {
	hosts := strings.Join(nc.Servers(), ", ") // the addresses contain no users
	if err := nc.LastError(); err != nil {
		return fmt.Errorf("natsbroker: the NATS client has closed its connection to %s and will not reconnect: %w. Try: check user and password, then make a new connection", hosts, err)
	}
	return fmt.Errorf("natsbroker: the connection to %s was closed. Try: close the connection only after Run or Consume has returned", hosts)
}

func all(messages []message.Message, err error) []error {
	errs := make([]error, len(messages))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func notConnected(status nats.Status) error {
	return fmt.Errorf("natsbroker: the connection to the server is %s", strings.ToLower(status.String()))
}

func (p *publisher) send(ctx context.Context, m *message.Message) error {
	if !isSubject(m.Topic) {
		return retry.Permanent(fmt.Errorf("natsbroker: the topic %q is not a valid NATS subject. Try: words with dots between them, such as orders.created", m.Topic))
	}
	message := &nats.Msg{Subject: m.Topic, Data: m.Payload, Header: nats.Header{}}
	for name, value := range cloudevent.Headers(m, cloudevent.NATS) {
		if strings.ContainsAny(value, "\r\n") {
			return retry.Permanent(fmt.Errorf("natsbroker: the header %q has a line break, and a NATS header cannot contain line breaks", name))
		}
		message.Header[name] = []string{value}
	}
	// The relay decides when a message is sent again.
	_, err := p.js.PublishMsg(ctx, message, jetstream.WithMsgID(msgID(m)), jetstream.WithRetryAttempts(0))
	return classify(m, err)
}

// msgID returns the Nats-Msg-Id of m: the ID of m, and a hash of the rest. A stream drops a message with a known Nats-Msg-Id, and
// confirms it. The hash is the same in every delivery, so a stream drops a second delivery of m. But it keeps another message
// to which an application has given the same ID, such as a message for another subject.
func msgID(m *message.Message) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %d %q %q %q ", m.Topic, m.Key, m.Seq, m.Type, m.Source, m.Headers) // fmt prints a map in the order of its keys
	h.Write(m.Payload)
	return m.ID + "-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// isSubject reports whether a message can be published to topic: topic has no wildcard and no empty word.
func isSubject(topic string) bool {
	for word := range strings.SplitSeq(topic, ".") {
		if word == "" || word == "*" || word == ">" || strings.ContainsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return false
		}
	}
	return true
}

// These are error codes of the server that the client library does not name.
const (
	codeMessageTooLarge = 10054
	codeHeaderTooLarge  = 10097
)

func classify(m *message.Message, err error) error {
	if err == nil {
		return nil
	}
	var refusal *jetstream.APIError
	isRefusal := errors.As(err, &refusal)
	told := fmt.Errorf("natsbroker: subject %s: %w", m.Topic, err)
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return outbox.Unavailable(fmt.Errorf("%w. Try: create a stream for this subject; or, if the stream exists, wait until it has a leader again", told))
	case errors.Is(err, nats.ErrMaxPayload):
		return retry.Permanent(fmt.Errorf("%w. Try: set a larger max_payload on the server, or send a smaller message", told))
	case isRefusal && (refusal.ErrorCode == codeMessageTooLarge || refusal.ErrorCode == codeHeaderTooLarge):
		return retry.Permanent(fmt.Errorf("%w. Try: set a larger max_msg_size for the stream, or send a smaller message", told))
	case isPassing(err):
		return outbox.Unavailable(told)
	}
	return told
}

// isPassing reports whether the server or the connection has caused an error, and not the message.
func isPassing(err error) bool {
	var refusal *jetstream.APIError
	if errors.As(err, &refusal) && refusal.Code >= http.StatusInternalServerError { // such as a full stream or disk, or a cluster without a leader
		return true
	}
	for _, passing := range []error{
		context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
