package httpbroker

import (
	"net/http"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// ReceiverConfig of a [Receiver]. The zero value receives CloudEvents and accepts every sender.
type ReceiverConfig struct {
	// Verify checks the sender of a request by the bytes of the body, before any of it is decoded or stored. After an error the sender gets 401, or
	// 503 if the error is of the database, the end of the context or from [retry.After]: then the check was not possible. r.Body is already read.
	// Default: no check; authenticate around the receiver.
	Verify func(r *http.Request, body []byte) error

	// Decode makes messages of the bytes of a body: an empty list if it has nothing to apply, such as a ping. Each message needs an ID that is the
	// same when the sender sends it again. An empty Topic or Source gets the default of a CloudEvent. With an error the first message has the valid
	// fields: if it has an ID, it becomes a dead letter. r.Body is already read. Default: [Decode].
	Decode func(r *http.Request, body []byte) ([]message.Message, error)

	// Source returns the source of a message: two messages with different sources are different, even if their IDs are the same. A service with
	// several tenants puts the authenticated tenant before m.Source. Default, also for "": m.Source, which is the source of the CloudEvent; for a
	// message that is not a CloudEvent and names no source it is the topic.
	Source func(r *http.Request, m message.Message) string
}

// Receiver returns a handler that applies each message which is sent to it: the writes of fn and the fact that the message was applied are one
// commit, and the answer follows it. The package documentation has a table of the answers.
//
// The topic of a message is the header Once-Topic, which [Publisher] sends; without it the value of {topic} in the pattern of [http.ServeMux];
// without that the path.
//
// When the request ends, the context of fn ends as well, and nothing is committed.
func Receiver[TX any](in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ReceiverConfig) http.Handler {
	return receiver.Of(in, fn, cfg.complete())
}

func (cfg ReceiverConfig) complete() receiver.Config {
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	return receiver.Config{Verify: cfg.Verify, Decode: cfg.Decode, Source: cfg.Source}
}

// Decode returns the CloudEvent in a request, in binary mode or in JSON, or any message with a header Idempotency-Key, which is its ID. With an error
// the message has the valid fields.
func Decode(r *http.Request, body []byte) ([]message.Message, error) {
	m, err := cloudevent.Decode(receiver.Headers(r.Header), cloudevent.HTTP, body)
	return []message.Message{m}, err
}
