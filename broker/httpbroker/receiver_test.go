package httpbroker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

// calls is what a receiver asks of its inbox.
type calls struct {
	handled, refused []message.Message
	classes          []string
	failure          error // of both
}

func (c *calls) receiver(maxPayload int) http.Handler { return c.with(ReceiverConfig{}, maxPayload) }

func (c *calls) with(cfg ReceiverConfig, maxPayload int) http.Handler {
	refuse := func(_ context.Context, m message.Message, class string, reason error) error {
		c.refused, c.classes = append(c.refused, m), append(c.classes, class)
		if reason == nil {
			return errors.New("no reason")
		}
		return c.failure
	}
	return receiver.New(cfg.complete(), maxPayload, refuse, func(_ context.Context, messages []message.Message) []inbox.Result {
		c.handled = append(c.handled, messages...)
		results := make([]inbox.Result, len(messages))
		for i := range results {
			results[i] = inbox.Result{Outcome: inbox.Applied, Err: c.failure}
		}
		return results
	})
}

func event(body io.Reader, changes ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/events/refunds", body)
	for name, value := range map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "payments", "ce-type": "refund.succeeded"} {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(changes); i += 2 {
		if r.Header.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			r.Header.Del(changes[i])
		}
	}
	return r
}

type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestReceiverAnswers: what each answer says to the sender, and what is kept as a dead letter.
func TestReceiverAnswers(t *testing.T) {
	failed := errors.New("a secret of the handler")
	batch := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("[]"))
	batch.Header.Set("Content-Type", "application/cloudevents-batch+json")
	large := fmt.Sprintf(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":%q}`, strings.Repeat("x", 101))
	for name, c := range map[string]struct {
		request *http.Request
		failure error
		status  int
		after   string
		handled int
		letter  string // its class
	}{
		"applied":            {event(strings.NewReader("{}")), nil, 200, "", 1, ""},
		"largest":            {event(strings.NewReader(strings.Repeat("x", 100))), nil, 200, "", 1, ""},
		"bare percent":       {event(nil, "once-topic", "50%", "ce-type", "50%"), nil, 200, "", 1, ""},
		"failed":             {event(nil), failed, 500, "", 1, ""},
		"failed, later":      {event(nil), retry.After(failed, 1500*time.Millisecond), 500, "2", 1, ""},
		"no database":        {event(nil), &once.Error{Code: once.CodeUnavailable}, 503, "", 1, ""},
		"no database, later": {event(nil), retry.After(&once.Error{Code: once.CodeUnavailable}, time.Second), 503, "1", 1, ""},
		"conflict":           {event(nil), &once.Error{Code: once.CodeConflict}, 503, "", 1, ""},
		"handler failed":     {event(nil), &once.Error{Code: once.CodeFailed, Err: failed}, 500, "", 1, ""},
		"shut down":          {event(nil), context.Canceled, 503, "", 1, ""},
		"too late":           {event(nil), context.DeadlineExceeded, 503, "", 1, ""},

		"malformed":                 {event(nil, "ce-type", ""), nil, 400, "", 0, "malformed"},
		"malformed, no database":    {event(nil, "ce-type", ""), &once.Error{Code: once.CodeUnavailable}, 503, "", 0, "malformed"},
		"malformed, without an id":  {event(nil, "ce-id", ""), nil, 400, "", 0, ""},
		"malformed topic":           {event(nil, "once-topic", "%0a"), nil, 400, "", 0, "malformed"},
		"an extension of bytes":     {event(nil, "ce-tenant", "%ff"), nil, 400, "", 0, "malformed"},
		"a batch":                   {batch, nil, 400, "", 0, ""},
		"nothing":                   {httptest.NewRequest(http.MethodPost, "/", nil), nil, 400, "", 0, ""},
		"too large":                 {event(strings.NewReader(strings.Repeat("x", 101))), nil, 413, "", 0, "too_large"},
		"far too large":             {event(strings.NewReader(strings.Repeat("x", 1<<20))), nil, 413, "", 0, "too_large"},
		"too large, no database":    {event(strings.NewReader(strings.Repeat("x", 101))), &once.Error{Code: once.CodeUnavailable}, 503, "", 0, "too_large"},
		"too large, without an id":  {event(strings.NewReader(strings.Repeat("x", 1<<20)), "ce-id", ""), nil, 413, "", 0, ""},
		"too large in JSON":         {event(strings.NewReader(large), "content-type", "application/cloudevents+json"), nil, 413, "", 0, "too_large"},
		"cut":                       {event(cut{}), nil, 408, "", 0, ""},
		"plain with a key":          {event(nil, "ce-specversion", "", "ce-id", "", "ce-source", "", "ce-type", "", "Idempotency-Key", "k"), nil, 200, "", 1, ""},
		"GET":                       {httptest.NewRequest(http.MethodGet, "/", nil), nil, 405, "", 0, ""},
		"HEAD":                      {httptest.NewRequest(http.MethodHead, "/", nil), nil, 405, "", 0, ""},
		"OPTIONS":                   {httptest.NewRequest(http.MethodOptions, "/", nil), nil, 405, "", 0, ""},
		"PUT of an event":           {func() *http.Request { r := event(nil); r.Method = http.MethodPut; return r }(), nil, 405, "", 0, ""},
		"a CloudEvent of version 2": {event(nil, "ce-specversion", "2.0"), nil, 400, "", 0, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			in := calls{failure: c.failure}
			w := httptest.NewRecorder()
			in.receiver(100).ServeHTTP(w, c.request)
			if w.Code != c.status || w.Header().Get("Retry-After") != c.after {
				t.Errorf("%d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			if len(in.handled) != c.handled || strings.Join(in.classes, " ") != c.letter {
				t.Errorf("%d handled, letters %q", len(in.handled), in.classes)
			}
			for _, m := range in.refused {
				if len(m.Payload) > 100 || m.ID != "1" {
					t.Errorf("the letter is %+v", m)
				}
			}
			if c.status == http.StatusOK {
				if got := w.Body.String(); got != "{\"outcome\":\"applied\"}\n" || w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("%q", got)
				}
				return
			}
			var p struct {
				Title, Detail, Code string
				Status              int
				Retryable           bool
			}
			err := json.Unmarshal(w.Body.Bytes(), &p)
			if err != nil || p.Status != c.status || p.Code == "" || p.Detail == "" || p.Title == "" || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%v: %s", err, w.Body)
			}
			if wants := c.status == 500 || c.status == 503 || c.status == 408; p.Retryable != wants {
				t.Errorf("retryable: %v", p.Retryable)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("the answer tells what the handler said: %s", w.Body)
			}
		})
	}
}

// TestReceiverTopic: messages of two topics do not share an order because they come by one path.
func TestReceiverTopic(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		header  string
		want    string
	}{
		"path":             {"/", "", "/events/refunds"},
		"pattern":          {"POST /events/{topic}", "", "refunds"},
		"header":           {"POST /events/{topic}", "pay%20outs", "pay outs"},
		"header, any path": {"/", "%E2%82%AC", "€"},
	} {
		t.Run(name, func(t *testing.T) {
			var in calls
			mux := http.NewServeMux()
			mux.Handle(c.pattern, in.receiver(100))
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, event(nil, "Once-Topic", c.header, "Once-Attempt", "3"))
			if w.Code != http.StatusOK || in.handled[0].Topic != c.want || in.handled[0].Delivery != 3 {
				t.Errorf("%d: %+v", w.Code, in.handled)
			}
		})
	}
	var in calls
	w := httptest.NewRecorder()
	twice := event(nil)
	twice.Header["Once-Topic"] = []string{"a", "b"}
	if in.receiver(100).ServeHTTP(w, twice); w.Code != http.StatusBadRequest {
		t.Errorf("two topics: %d", w.Code)
	}
}

// TestReceiverKeepsNoSecrets: what a server or a proxy needs is not stored with a message.
func TestReceiverKeepsNoSecrets(t *testing.T) {
	var in calls
	in.receiver(100).ServeHTTP(httptest.NewRecorder(), event(nil,
		"Authorization", "Bearer x", "Cookie", "x", "Proxy-Authorization", "x", "User-Agent", "x", "X-Forwarded-For", "x", "Via", "x",
		"X-API-Key", "x", "x-auth-token", "x", "X-Amz-Security-Token", "x", "Accept-Encoding", "x", "Idempotency-Key", "1", "Content-Type", "text/plain", "Tenant", "7"))
	if want := map[string]string{"content-type": "text/plain", "tenant": "7"}; len(in.handled) != 1 || !maps.Equal(in.handled[0].Headers, want) {
		t.Errorf("%+v", in.handled)
	}
}

// TestReceiverGetsWhatPublisherSends: every field of a message arrives.
func TestReceiverGetsWhatPublisherSends(t *testing.T) {
	var in calls
	server := httptest.NewServer(in.receiver(1 << 10))
	defer server.Close()
	sent := message.Message{
		ID: once.NewKey(), Topic: "refunds €", Key: "Zoë 7", Seq: 3, Type: "refund.succeeded", Source: "payments", Payload: []byte{0, 255},
		Headers: map[string]string{"content-type": "application/octet-stream", "tenant": "7"}, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if errs := Publisher(server.URL+"/events", Config{}).Publish(t.Context(), []message.Message{sent}); errs != nil {
		t.Fatal(errs)
	}
	got := in.handled[0]
	if got.ID != sent.ID || got.Topic != sent.Topic || got.Key != sent.Key || got.Seq != sent.Seq || got.Type != sent.Type || got.Source != sent.Source ||
		!bytes.Equal(got.Payload, sent.Payload) || !maps.Equal(got.Headers, sent.Headers) || got.Trace != sent.Trace || !got.CreatedAt.Equal(sent.CreatedAt) {
		t.Errorf("\n got  %+v\n sent %+v", got, sent)
	}
}

// FuzzReceiverConfirmsOnlyWhatWasHandled: for any request, a message that is handled can be stored, and a request whose message was not handled is not confirmed.
func FuzzReceiverConfirmsOnlyWhatWasHandled(f *testing.F) {
	f.Add("refunds", "ce-type", "t", []byte("{}"))
	f.Add("%0a", "content-type", "application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{}}`))
	f.Fuzz(func(t *testing.T, topic, name, value string, body []byte) {
		var in calls
		r := event(bytes.NewReader(body), "Once-Topic", topic)
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		w := httptest.NewRecorder()
		in.receiver(100).ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusOK && len(in.handled) == 1:
			m := in.handled[0]
			if message.CheckText("topic", m.Topic, message.MaxText) != nil || m.ID == "" || len(m.Payload) > 100 {
				t.Fatalf("%+v", m)
			}
		case (w.Code == http.StatusBadRequest || w.Code == http.StatusRequestEntityTooLarge) && len(in.handled) == 0:
		default:
			t.Fatalf("%d, %d handled", w.Code, len(in.handled))
		}
	})
}
