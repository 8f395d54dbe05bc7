package httpbroker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
	"github.com/oncelib/once/retry"
)

// receiver keeps what arrives. It can be closed and opened again on its port.
type receiver struct {
	handler http.Handler
	address string
	server  *httptest.Server

	mu      sync.Mutex
	arrived []message.Message
	failure error
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{address: "127.0.0.1:0"}
	r.handler = http.HandlerFunc(r.receive)
	r.open(t)
	t.Cleanup(func() { r.server.Close() })
	return r
}

func (r *receiver) open(t *testing.T) {
	t.Helper()
	var listener net.ListenConfig
	l, err := listener.Listen(t.Context(), "tcp", r.address)
	for end := time.Now().Add(time.Minute); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); { // a client of another process has the port
		<-time.After(10 * time.Millisecond)
		l, err = listener.Listen(t.Context(), "tcp", r.address)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	r.server = httptest.NewUnstartedServer(r.handler)
	r.server.Listener.Close()
	r.server.Listener = l
	r.server.Start()
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil { // the request was cut
		return
	}
	headers := func(yield func(name, value string) bool) {
		for name, values := range req.Header {
			if !yield(name, values[0]) {
				return
			}
		}
	}
	m, parsed := outboxtest.Message(strings.TrimPrefix(req.URL.Path, "/events/"), "ce-", true, headers, body)
	if m.Headers["refuse"] != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = errors.Join(r.failure, parsed)
	if m.Headers["idempotency-key"] != m.ID {
		r.failure = fmt.Errorf("Idempotency-Key: %q", m.Headers["idempotency-key"])
	}
	if m.Headers["traceparent"] != m.Trace {
		r.failure = fmt.Errorf("traceparent: %q", m.Headers["traceparent"])
	}
	r.arrived = append(r.arrived, m)
}

func (r *receiver) received(t *testing.T) []message.Message {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		t.Error(r.failure)
	}
	arrived := r.arrived
	r.arrived, r.failure = nil, nil
	return arrived
}

func TestPublisherKeepsTheContract(t *testing.T) {
	r := newReceiver(t)
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: httpbroker.Publisher("http://"+r.address+"/events/{topic}", httpbroker.Config{}),
		Topics:    []string{"refunds", "a b/c"},
		Received:  r.received,
		Reject:    func(m *message.Message) { m.Headers = map[string]string{"refuse": "yes"} },
		Break: func(t *testing.T) func() {
			t.Helper()
			r.server.Close()
			return func() { r.open(t) }
		},
	})
}

// TestAnswersAreClassified: what each answer says about the message and the destination.
func TestAnswersAreClassified(t *testing.T) {
	const own, permanent, unavailable = "of the message", "permanent", "unavailable"
	for _, c := range []struct {
		status int
		after  string
		want   string
		wait   time.Duration
	}{
		{200, "", "", 0}, {201, "", "", 0}, {202, "", "", 0}, {204, "", "", 0},
		{301, "", own, 0}, {302, "", own, 0}, {307, "", own, 0}, {308, "", own, 0},
		{400, "", permanent, 0}, {413, "", permanent, 0}, {415, "", permanent, 0}, {422, "", permanent, 0}, {431, "", permanent, 0},
		{401, "", own, 0}, {403, "", own, 0}, {404, "", own, 0}, {405, "", own, 0}, {410, "", own, 0},
		{408, "", own, 0}, {409, "", own, 0}, {409, "1", own, time.Second}, {425, "", own, 0}, {429, "", own, 0},
		{429, "7", unavailable, 7 * time.Second}, {503, "30", unavailable, 30 * time.Second},
		{503, "soon", unavailable, 0}, {503, "-1", unavailable, 0}, {429, "soon", own, 0}, {503, "99999999999999999999", unavailable, 0}, {503, "999999999", unavailable, 24 * time.Hour},
		{500, "", own, 0}, {502, "", unavailable, 0}, {503, "", unavailable, 0}, {504, "", unavailable, 0},
		{503, "Mon, 02 Jan 2006 15:04:05 GMT", unavailable, 0},
	} {
		t.Run(fmt.Sprintf("%d %s", c.status, c.after), func(t *testing.T) {
			visits := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				visits++
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
			}))
			defer s.Close()
			errs := httpbroker.Publisher(s.URL, httpbroker.Config{}).Publish(t.Context(), []message.Message{{Topic: "t", ID: "1", Type: "x"}})
			if visits != 1 {
				t.Errorf("%d requests", visits)
			}
			if c.want == "" {
				if errs != nil {
					t.Error(errs)
				}
				return
			}
			if errs == nil {
				t.Fatal("confirmed")
			}
			got := own
			switch {
			case retry.IsPermanent(errs[0]):
				got = permanent
			case outbox.IsUnavailable(errs[0]):
				got = unavailable
			}
			if got != c.want {
				t.Errorf("the error is %s, want %s: %v", got, c.want, errs[0])
			}
			var later interface{ RetryAfter() time.Duration }
			switch {
			case errors.As(errs[0], &later):
				if later.RetryAfter() != c.wait {
					t.Errorf("it waits %v, want %v", later.RetryAfter(), c.wait)
				}
			case c.wait != 0:
				t.Errorf("it does not say when: %v", errs[0])
			}
			if _, after := retry.Classify(errs[0]); after != c.wait {
				t.Errorf("package retry waits %v, want %v", after, c.wait)
			}
		})
	}
}

// TestSilentReceiver: a receiver that takes a request and says nothing fails this message, and no other.
func TestSilentReceiver(t *testing.T) {
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") == "silent" {
			<-end
		}
	}))
	defer s.Close()
	defer close(end)
	var p outbox.Publisher
	var errs []error
	for timeout := time.Second; timeout < 2*time.Minute; timeout *= 2 { // until it is enough for the other message
		p = httpbroker.Publisher(s.URL, httpbroker.Config{Timeout: timeout})
		if errs = p.Publish(t.Context(), []message.Message{{Topic: "t", ID: "silent"}, {Topic: "t", ID: "2"}}); errs == nil || errs[1] == nil {
			break
		}
	}
	if errs == nil || errs[0] == nil || errs[1] != nil {
		t.Fatal(errs)
	}
	if outbox.IsUnavailable(errs[0]) || retry.IsPermanent(errs[0]) {
		t.Error(errs[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	p = httpbroker.Publisher(s.URL, httpbroker.Config{})
	if errs = p.Publish(ctx, []message.Message{{Topic: "t", ID: "silent"}}); errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Errorf("the context has ended: %v", errs)
	}
}

// TestAnswerWithoutEnd: an answer is read to a bound, and a confirmation counts whatever follows it.
func TestAnswerWithoutEnd(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	p := httpbroker.Publisher(s.URL, httpbroker.Config{Timeout: time.Minute})
	if errs := p.Publish(t.Context(), []message.Message{{Topic: "t", ID: "1"}}); errs != nil {
		t.Error(errs)
	}
}

func TestWrongTargetsAreUnavailable(t *testing.T) {
	for target, m := range map[string]message.Message{
		"://":                    {Topic: "t"},
		"ftp://127.0.0.1/":       {Topic: "t"},
		"example.com":            {Topic: "t"},
		"https:///path":          {Topic: "t"},
		"http://127.0.0.1:1/":    {Topic: "t"},
		"http://host.invalid./x": {Topic: "t"},
	} {
		errs := httpbroker.Publisher(target, httpbroker.Config{}).Publish(t.Context(), []message.Message{m})
		if errs == nil || !outbox.IsUnavailable(errs[0]) {
			t.Errorf("%s: %v", target, errs)
		}
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer untrusted.Close()
	untrusted.Config.ErrorLog = nil
	errs := httpbroker.Publisher(untrusted.URL, httpbroker.Config{}).Publish(t.Context(), []message.Message{{Topic: "t"}})
	if errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Errorf("an untrusted certificate: %v", errs)
	}
	for name, m := range map[string]message.Message{
		"topic":  {Topic: ".."},
		"header": {Topic: "t", Headers: map[string]string{"x": "a\nb"}},
	} {
		errs := httpbroker.Publisher("http://127.0.0.1:1/{topic}", httpbroker.Config{}).Publish(t.Context(), []message.Message{m})
		if errs == nil || !retry.IsPermanent(errs[0]) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestPrepareAndQuoted(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer s.Close()
	fails := errors.New("no token")
	var fail bool
	p := httpbroker.Publisher(s.URL, httpbroker.Config{Quoted: true, Client: s.Client(), Prepare: func(r *http.Request) error {
		if fail {
			return fails
		}
		r.Header.Set("Authorization", "Bearer "+r.Header.Get("Ce-Id"))
		return nil
	}})
	if errs := p.Publish(t.Context(), []message.Message{{Topic: "t", ID: "1"}}); errs != nil {
		t.Fatal(errs)
	}
	if got.Get("Authorization") != "Bearer 1" || got.Get("Idempotency-Key") != `"1"` {
		t.Error(got)
	}
	fail = true
	if errs := p.Publish(t.Context(), []message.Message{{Topic: "t", ID: "1"}}); errs == nil || !errors.Is(errs[0], fails) || retry.IsPermanent(errs[0]) {
		t.Error(errs)
	}
}
