package httpbroker

import (
	"net/http"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// ReceiverConfig configures a [Receiver]. With the zero value, a Receiver receives CloudEvents and accepts every sender.
type ReceiverConfig struct {
	// Verify checks the sender of a request, before the body is decoded or stored. The parameter body has the bytes of the request's body; r.Body is
	// already read. If Verify returns an error, the sender gets 401, with one exception: if the error comes from the database, from the end of the
	// context or from [retry.After], the check was not possible, and the sender gets 503. Default: nil, the receiver does not check the sender.
	// Without Verify, put authentication around the receiver.
	Verify func(r *http.Request, body []byte) error

	// Decode converts the body of a request to messages. The parameter body has the whole body of the request, and r.Body is already read. If the
	// body contains nothing to apply, for example because the request is a ping, Decode returns an empty list. Each message must have an ID that is
	// the same when the sender sends the message again. If the field Topic or Source of a message is empty, the receiver fills the field as for a
	// CloudEvent without a topic or source. If Decode returns an error, Decode may also return one message that contains the valid fields. If the
	// message that Decode returns with an error has an ID, the message becomes a dead letter (a stored message that was not applied). Default: the
	// function [Decode].
	Decode func(r *http.Request, body []byte) ([]message.Message, error)

	// Source returns the source of a message. Two messages with different sources are different messages, even if their IDs are the same. A service
	// with several tenants should put the authenticated tenant before m.Source. If Source is nil or returns "", the source is m.Source: the source of
	// the CloudEvent, or the topic for a message that is not a CloudEvent and names no source.
	Source func(r *http.Request, m message.Message) string
}

// Receiver returns a handler that applies each received message once with fn. The writes of fn, and a record which says that the message was applied,
// are committed in one transaction. The HTTP handler answers after this transaction has committed. The package documentation has a table of the
// answers.
//
// The topic of a message is the header Once-Topic, which [Publisher] sends. If the header Once-Topic is missing, the topic is the value of the
// wildcard {topic} in the pattern of [http.ServeMux]. If the pattern has no wildcard {topic}, the topic is the path of the request.
//
// If the client disconnects before the commit, the context of fn ends, and nothing is committed.
func Receiver[TX any](in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ReceiverConfig) http.Handler {
	return receiver.Of(in, fn, cfg.complete())
}

// complete returns the configuration for package receiver, with the default of Decode.
func (cfg ReceiverConfig) complete() receiver.Config {
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	return receiver.Config{Verify: cfg.Verify, Decode: cfg.Decode, Source: cfg.Source}
}

// Decode returns the CloudEvent that a request contains, in binary mode or in JSON. A request without a CloudEvent must have a header
// Idempotency-Key, which becomes the ID of the message. If Decode returns an error, Decode also returns a message that contains the valid fields.
func Decode(r *http.Request, body []byte) ([]message.Message, error) {
	m, err := cloudevent.Decode(receiver.Headers(r.Header), cloudevent.HTTP, body)
	return []message.Message{m}, err
}
