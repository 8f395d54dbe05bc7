package httpbroker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
)

// Classes of dead letters.
const (
	classMalformed = "malformed"
	classTooLarge  = "too_large"
)

// Codes of problems.
const (
	codeMethod     = "VALIDATION.method"
	codeMalformed  = "VALIDATION.event_malformed"
	codeTooLarge   = "VALIDATION.body_too_large"
	codeUnreadable = "VALIDATION.body_unreadable"
	codeFailed     = "INTERNAL.handler_failed"
	codeStore      = "TRANSIENT.store_unavailable"
)

// ReceiverConfig of a [Receiver].
type ReceiverConfig struct {
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
	return &receiver{
		source:     cfg.Source,
		maxPayload: in.Config().MaxPayload,
		refuse:     in.Refuse,
		handle:     func(ctx context.Context, m message.Message) (inbox.Outcome, error) { return in.Handle(ctx, m, fn) },
	}
}

type receiver struct {
	source     func(r *http.Request, m message.Message) string
	maxPayload int
	handle     func(ctx context.Context, m message.Message) (inbox.Outcome, error)
	refuse     func(ctx context.Context, m message.Message, class string, reason error) error
}

// ServeHTTP implements [http.Handler].
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeProblem(w, problem{Status: http.StatusMethodNotAllowed, Code: codeMethod, Detail: "Events are sent with POST."})
		return
	}
	// An event in JSON can be larger than its data. What is larger than that is not read to its end.
	bound := int64(rc.maxPayload) + int64(rc.maxPayload)/2 + message.MaxReceivedHeaders
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bound))
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		// Not 400: the event may be a good one. It was cut on its way.
		writeProblem(w, problem{Status: http.StatusRequestTimeout, Code: codeUnreadable, Detail: "The request ended before its body did.", Retryable: true})
		return
	}
	m, malformed := rc.decode(r, body)
	if tooLarge != nil || len(m.Payload) > rc.maxPayload {
		m.Payload = nil
		rc.reject(w, r, m, classTooLarge, fmt.Errorf("httpbroker: the event is larger than %d bytes. Try: a reference to the data in place of the data, or inbox.Config.MaxPayload", rc.maxPayload))
		return
	}
	if malformed != nil {
		rc.reject(w, r, m, classMalformed, malformed)
		return
	}
	outcome, err := rc.handle(r.Context(), m)
	if err != nil {
		writeFailure(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "{\"outcome\":%q}\n", outcome)
}

// reject answers to what can never be applied. If it has an ID, it is kept as a dead letter first: the
// answer says that the sender need not come again.
func (rc *receiver) reject(w http.ResponseWriter, r *http.Request, m message.Message, class string, reason error) {
	if m.ID != "" {
		if err := rc.refuse(r.Context(), m, class, reason); err != nil {
			writeFailure(w, err)
			return
		}
	}
	p := problem{Status: http.StatusBadRequest, Code: codeMalformed, Detail: reason.Error()}
	if class == classTooLarge {
		p.Status, p.Code = http.StatusRequestEntityTooLarge, codeTooLarge
	}
	writeProblem(w, p)
}

// decode returns the message of a request. With an error it is what is valid of it.
func (rc *receiver) decode(r *http.Request, body []byte) (message.Message, error) {
	m, err := cloudevent.Decode(headersOf(r.Header), cloudevent.HTTP, body)
	m.Delivery = wire.Attempt(r.Header[wire.AttemptHeader])
	topic, wrong := topicOf(r)
	if wrong == nil {
		m.Topic = topic
	} else if err == nil {
		err = wrong
	}
	m.Source = cmp.Or(m.Source, m.Topic)
	if rc.source != nil {
		m.Source = cmp.Or(rc.source(r, m), m.Source)
	}
	return m, err
}

func topicOf(r *http.Request) (topic string, err error) {
	topic = r.PathValue("topic")
	if lines := r.Header[topicHeader]; len(lines) == 1 {
		topic = cloudevent.Unescape(lines[0])
	} else if len(lines) > 1 {
		return "", fmt.Errorf("httpbroker: the header %s is there twice. Try: one of them", topicHeader)
	}
	if topic == "" {
		topic = r.URL.Path
	}
	return topic, message.CheckText("topic", topic, message.MaxText)
}

// headersOf returns the headers that may be those of a message. What is for the server or a proxy is left out:
// it differs between deliveries, and secrets are not stored with a message.
func headersOf(h http.Header) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, values := range h {
			if ofRequest(name) {
				continue
			}
			for _, value := range values {
				if !yield(name, value) {
					return
				}
			}
		}
	}
}

func ofRequest(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Forwarded", "Via", "User-Agent", "Origin", "Referer", "Date", "Cache-Control", "Pragma", "X-Real-Ip", "X-Request-Id", wire.TimeoutHeader,
		"X-Api-Key", "Api-Key", "X-Auth-Token", "X-Access-Token", "X-Amz-Security-Token", "X-Csrf-Token", "X-Gitlab-Token", "X-Functions-Key", "Ocp-Apim-Subscription-Key":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Accept") || strings.HasPrefix(name, "Sec-")
}

// writeFailure answers to a message that was not applied. The text of err is for this side only.
func writeFailure(w http.ResponseWriter, err error) {
	_, after := retry.Classify(err)
	p := problem{Status: http.StatusInternalServerError, Code: codeFailed, Detail: "The event was not applied. Send it again.", Retryable: true, after: after}
	if ofDatabase(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		p.Status, p.Code, p.Detail = http.StatusServiceUnavailable, codeStore, "It is not known whether the event was applied. Send it again: it takes effect once."
	}
	writeProblem(w, p)
}

// ofDatabase reports whether err says nothing about the one event, and something about all of them.
func ofDatabase(err error) bool {
	switch once.CodeOf(err) {
	case once.CodeUnavailable, once.CodeConflict:
		return true
	}
	switch store.KindOf(err) {
	case store.KindUnavailable, store.KindLost, store.KindBusy, store.KindRetry:
		return true
	}
	return false
}

// problem is an error in the form of RFC 9457, with the members that oncehttp has.
type problem struct {
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`

	after time.Duration
}

func writeProblem(w http.ResponseWriter, p problem) {
	p.Title = http.StatusText(p.Status)
	if p.after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((p.after+time.Second-1)/time.Second), 10))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // texts and a number; a sender that is gone reads nothing
}
