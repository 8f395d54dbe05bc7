// Package receiver contains the HTTP handler in front of an inbox. Receivers of CloudEvents and of webhooks share it.
package receiver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
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

// TopicHeader contains the topic of a message, in percent encoding. Messages of one topic and key have an order.
const TopicHeader = "Once-Topic"

// Classes of dead letters.
const (
	classMalformed = "malformed"
	classTooLarge  = "too_large"
)

// Codes of problems.
const (
	codeUnverified = "AUTH.unauthenticated"
	codeMethod     = "VALIDATION.method"
	codeMalformed  = "VALIDATION.event_malformed"
	codeTooLarge   = "VALIDATION.body_too_large"
	codeUnreadable = "VALIDATION.body_unreadable"
	codeFailed     = "INTERNAL.handler_failed"
	codeStore      = "TRANSIENT.store_unavailable"
)

// Config configures a receiver.
type Config struct {
	// Verify checks from the bytes of the body that the sender is genuine. nil: every sender is accepted.
	Verify func(r *http.Request, body []byte) error

	// Answer returns the body of the answer to a request that carries no message, which the receiver answers without the
	// inbox. It returns nil for other requests. May be nil.
	Answer func(body []byte) []byte

	// Decode returns the messages of a body. If it returns an error, the first message contains the valid fields.
	Decode func(r *http.Request, body []byte) ([]message.Message, error)

	// Source returns the source of a message, or "". May be nil.
	Source func(r *http.Request, m message.Message) string
}

type (
	// Handle applies messages, and returns the result of each.
	Handle = func(ctx context.Context, messages []message.Message) []inbox.Result

	// Refuse stores a message as a dead letter.
	Refuse = func(ctx context.Context, m message.Message, class string, reason error) error
)

// New returns a receiver that applies messages with handle. For a message that can never be applied, it calls refuse.
func New(cfg Config, maxPayload int, refuse Refuse, handle Handle) http.Handler {
	return &receiver{cfg, maxPayload, refuse, handle}
}

// Of returns a receiver that applies each message once, with fn.
func Of[TX any](in *inbox.Inbox[TX], fn inbox.Handler[TX], cfg Config) http.Handler {
	return New(cfg, in.Config().MaxPayload, in.Refuse, func(ctx context.Context, messages []message.Message) []inbox.Result {
		return in.HandleBatch(ctx, messages, fn)
	})
}

type receiver struct {
	cfg        Config
	maxPayload int
	refuse     Refuse
	handle     Handle
}

// AtOnce is how many messages of one request are applied in one transaction.
const AtOnce = 100

// ServeHTTP implements [http.Handler].
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeProblem(w, problem{Status: http.StatusMethodNotAllowed, Code: codeMethod, Detail: "Events are sent with POST."})
		return
	}
	// An event in JSON can be larger than its data. The rest of a larger body is not read.
	bound := int64(rc.maxPayload) + int64(rc.maxPayload)/2 + message.MaxReceivedHeaders
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bound))
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		// The status is not 400, because the event may be valid. It was cut on its way.
		writeProblem(w, problem{Status: http.StatusRequestTimeout, Code: codeUnreadable, Detail: "The request has ended before its body was complete.", Retryable: true})
		return
	}
	if rc.cfg.Verify != nil {
		if tooLarge != nil { // a part of a body cannot prove its sender, and is not stored
			writeProblem(w, problem{Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge, Detail: rc.errTooLarge().Error()})
			return
		}
		if err := rc.cfg.Verify(r, body); err != nil {
			writeUnverified(w, r, err)
			return
		}
	}
	// Such a request carries no message, so the inbox must not see it.
	if rc.cfg.Answer != nil {
		if text := rc.cfg.Answer(body); text != nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text)
			return
		}
	}
	messages, malformed := rc.decode(r, body)
	switch {
	case tooLarge != nil, len(messages) == 1 && len(messages[0].Payload) > rc.maxPayload:
		rc.reject(w, r, messages, classTooLarge, rc.errTooLarge())
	case malformed != nil:
		rc.reject(w, r, messages, classMalformed, malformed)
	default:
		rc.apply(w, r, messages)
	}
}

func (rc *receiver) errTooLarge() error {
	return fmt.Errorf("the event is larger than %d bytes. Try: a reference to the data instead of the data, or a larger inbox.Config.MaxPayload", rc.maxPayload)
}

// apply applies messages and answers.
func (rc *receiver) apply(w http.ResponseWriter, r *http.Request, messages []message.Message) {
	var outcomes []string
	// In parts, so that one large request does not make one long transaction.
	for some := range slices.Chunk(messages, AtOnce) {
		for _, result := range rc.handle(r.Context(), some) {
			if result.Err != nil { // the sender sends all messages again, and the inbox recognises the applied ones
				writeFailure(w, result.Err)
				return
			}
			outcomes = append(outcomes, strconv.Quote(string(result.Outcome)))
		}
	}
	text := `{"outcomes":[` + strings.Join(outcomes, ",") + "]}\n"
	switch len(outcomes) {
	case 0:
		w.WriteHeader(http.StatusNoContent)
		return
	case 1:
		text = `{"outcome":` + outcomes[0] + "}\n"
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// reject answers a message that can never be applied. If the message has an ID, it is first stored as a dead letter, because
// the answer says that the sender need not send the message again.
func (rc *receiver) reject(w http.ResponseWriter, r *http.Request, messages []message.Message, class string, reason error) {
	if len(messages) > 0 && messages[0].ID != "" {
		m := messages[0]
		// The payload may be cut, and is too large for the table.
		if class == classTooLarge {
			m.Payload = nil
		}
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

// decode returns the messages of a request, and sets the fields that Config.Decode does not set.
func (rc *receiver) decode(r *http.Request, body []byte) ([]message.Message, error) {
	messages, err := rc.cfg.Decode(r, body)
	topic, wrong := topicOf(r)
	for i := range messages {
		m := &messages[i]
		m.Delivery = cmp.Or(m.Delivery, wire.Attempt(r.Header[wire.AttemptHeader]))
		if m.Topic == "" {
			m.Topic, err = topic, cmp.Or(err, wrong)
		}
		// A message needs a source, and its topic is the best name that is known.
		m.Source = cmp.Or(m.Source, m.Topic)
		if rc.cfg.Source != nil {
			m.Source = cmp.Or(rc.cfg.Source(r, *m), m.Source)
		}
	}
	return messages, err
}

// topicOf returns the topic of a request: from the path, or from the header.
func topicOf(r *http.Request) (topic string, err error) {
	topic = r.PathValue("topic")
	if lines := r.Header[TopicHeader]; len(lines) == 1 {
		topic = cloudevent.Unescape(lines[0])
	} else if len(lines) > 1 {
		return "", fmt.Errorf("the request has the header %s twice. Try: remove one of the two headers", TopicHeader)
	}
	if topic == "" {
		topic = r.URL.Path
	}
	if err := message.CheckText("topic", topic, message.MaxText); err != nil {
		return "", err
	}
	return topic, nil
}

// Headers returns the headers that may belong to a message. It omits headers for the server or a proxy: they differ between
// deliveries, and secrets must not be stored with a message.
func Headers(h http.Header) iter.Seq2[string, string] {
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

// ofRequest reports whether a header belongs to the request, and not to the message.
func ofRequest(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Forwarded", "Via", "User-Agent", "Origin", "Referer", "Date", "Cache-Control", "Pragma", "X-Real-Ip", "X-Request-Id", wire.TimeoutHeader,
		"X-Api-Key", "Api-Key", "X-Auth-Token", "X-Access-Token", "X-Amz-Security-Token", "X-Csrf-Token", "X-Gitlab-Token", "X-Functions-Key", "Ocp-Apim-Subscription-Key":
		return true
	}
	if strings.Contains(name, "Signature") || strings.HasSuffix(name, "-Sig") || strings.Contains(name, "-Hmac-") { // headers of a verifier
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Accept") || strings.HasPrefix(name, "Sec-")
}

// writeFailure answers a message that was not applied. The sender does not get the text of err.
func writeFailure(w http.ResponseWriter, err error) {
	_, after := retry.Classify(err)
	p := problem{Status: http.StatusInternalServerError, Code: codeFailed, Detail: "The event was not applied. Send it again.", Retryable: true, after: after}
	// These errors concern the database or the connection, so a later attempt may succeed.
	if ofDatabase(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		p.Status, p.Code, p.Detail = http.StatusServiceUnavailable, codeStore, "It is not known whether the event was applied. Send it again: it takes effect once."
	}
	writeProblem(w, p)
}

// writeUnverified answers a request that Verify has refused or could not check. The answer does not give the reason.
func writeUnverified(w http.ResponseWriter, r *http.Request, err error) {
	_, after := retry.Classify(err)
	// The check itself may have failed, and then the sender may be genuine.
	if after > 0 || ofDatabase(err) || r.Context().Err() != nil {
		writeProblem(w, problem{Status: http.StatusServiceUnavailable, Code: codeStore, Detail: "The receiver could not check the sender of the event. Send the event again.", Retryable: true, after: after})
		return
	}
	w.Header().Set("WWW-Authenticate", "Signature")
	writeProblem(w, problem{Status: http.StatusUnauthorized, Code: codeUnverified, Detail: "The sender of the event is unknown, because the signature is missing or wrong."})
}

// ofDatabase reports whether err concerns all events, and not only this event.
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

// problem is an error in the form of RFC 9457, with the members of oncehttp.
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
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // texts and a number always encode; a sender that is gone reads nothing
}
