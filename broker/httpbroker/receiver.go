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
	// Verify checks by the bytes of the body who has sent a request, before anything of it is decoded or stored. After an error the
	// sender gets 401, or 503 if the error is of the database, the end of the context or from [retry.After]: it could not be checked.
	// r.Body is read already. Default: none; authenticate around the receiver.
	Verify func(r *http.Request, body []byte) error

	// Decode makes messages of the bytes of a body: none if there is nothing to apply, such as for a ping. Each needs an ID that is the same when
	// the sender sends it again. What it leaves out of Topic and Source gets the default of a CloudEvent. With an error the first
	// message is what is valid of it: if it has an ID, it becomes a dead letter. r.Body is read already. Default: [Decode].
	Decode func(r *http.Request, body []byte) ([]message.Message, error)

	// Source returns the source of a message: two messages with different sources are different, also if their IDs are the same. A service
	// with several tenants puts the authenticated tenant in front of m.Source. Default, also of "": m.Source, which is that of
	// the CloudEvent; a message that is no CloudEvent and names none has its topic there.
	Source func(r *http.Request, m message.Message) string
}

// Receiver returns a handler that applies each message which is sent to it: fn and the note that the message
// was applied are one commit, and the answer follows it. The package documentation has a table of the answers.
//
// The topic of a message is that of the header Once-Topic, which [Publisher] sends; else what stands for
// {topic} in the pattern of [http.ServeMux]; else the path.
//
// When the request ends, so does the context of fn, and nothing of it is committed.
func Receiver[TX any](in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg ReceiverConfig) http.Handler {
	return receiver.Of(in, fn, cfg.complete())
}

func (cfg ReceiverConfig) complete() receiver.Config {
	if cfg.Decode == nil {
		cfg.Decode = Decode
	}
	return receiver.Config{Verify: cfg.Verify, Decode: cfg.Decode, Source: cfg.Source}
}

// Decode returns the CloudEvent in a request, in binary mode or in JSON, or any message with a header Idempotency-Key, which is its
// ID. With an error the message is what is valid of it.
func Decode(r *http.Request, body []byte) ([]message.Message, error) {
	m, err := cloudevent.Decode(receiver.Headers(r.Header), cloudevent.HTTP, body)
	return []message.Message{m}, err
}
