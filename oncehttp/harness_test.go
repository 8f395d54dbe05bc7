package oncehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

type handler = func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx)

// service is a protected handler behind a real server.
type service struct {
	t       *testing.T
	store   *faulty
	handler http.Handler
	url     string
	addr    string
	runs    atomic.Int64 // of the handler
	log     events
}

type setup struct {
	oncehttp.Config
	engine once.Config
	faults func(*faulty)
	around func(http.Handler) http.Handler // middleware outside of ours
	inside func(http.Handler) http.Handler // and inside
}

func start(t *testing.T, cfg setup, h handler) *service {
	t.Helper()
	s := &service{t: t, store: &faulty{Store: memstore.New()}}
	if cfg.faults != nil {
		cfg.faults(s.store)
	}
	if cfg.Principal == nil {
		cfg.Principal = oncehttp.SharedPrincipal()
	}
	cfg.engine.Observer = &s.log
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		h(w, r, oncehttp.Tx[*memstore.Tx](r.Context()))
	})
	if cfg.inside != nil {
		next = cfg.inside(next)
	}
	next = oncehttp.Middleware[*memstore.Tx](once.New[*memstore.Tx](s.store, cfg.engine), cfg.Config)(next)
	if cfg.around != nil {
		next = cfg.around(next)
	}
	s.handler = next
	server := httptest.NewUnstartedServer(next)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	s.url, s.addr = server.URL, server.Listener.Addr().String()
	return s
}

// response is an answer that has been read.
type response struct {
	status int
	header http.Header
	body   string
}

func (r response) idempotency() string { return r.header.Get("Idempotency-Status") }

// problem is the body of an error, as a client in any language would see it.
type problem struct {
	Type       string                             `json:"type"`
	Title      string                             `json:"title"`
	Status     int                                `json:"status"`
	Detail     string                             `json:"detail"`
	Instance   string                             `json:"instance"`
	Code       oncehttp.ProblemCode               `json:"code"`
	Retryable  bool                               `json:"retryable"`
	SafeNewKey bool                               `json:"safe_new_key"`
	StatusURL  string                             `json:"status_url"`
	Errors     []struct{ Pointer, Detail string } `json:"errors"`
}

func (r response) problem(t *testing.T) (p problem) {
	t.Helper()
	if ct := r.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("content type %q of %d %q", ct, r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v in %q", err, r.body)
	}
	if p.Status != r.status {
		t.Errorf("status %d in the body of a %d", p.Status, r.status)
	}
	return p
}

var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// send sends a request whose further header lines are pairs of name and value.
func (s *service) send(method, target, body string, header ...string) response {
	s.t.Helper()
	resp, err := s.try(method, target, body, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

func (s *service) try(method, target, body string, header ...string) (response, error) {
	r, err := http.NewRequest(method, s.url+target, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	r.GetBody = nil // the transport would send a request with a key twice
	for i := 0; i < len(header); i += 2 {
		r.Header[http.CanonicalHeaderKey(header[i])] = append(r.Header[http.CanonicalHeaderKey(header[i])], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(b)}, err
}

// post is the usual request.
func (s *service) post(key, body string, header ...string) response {
	s.t.Helper()
	return s.send("POST", "/refunds", body, append([]string{"Idempotency-Key", key}, header...)...)
}

// raw sends text over a connection of its own and returns all that comes back.
func (s *service) raw(text string) []byte {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// split cuts a raw answer into status line, header lines and body.
func split(t *testing.T, raw []byte) (status string, header []string, body []byte) {
	t.Helper()
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("not an answer: %q", raw)
	}
	for line := range bytes.Lines(append(head, '\n')) {
		if status == "" {
			status = strings.TrimRight(string(line), "\r\n")
		} else {
			header = append(header, strings.TrimRight(string(line), "\r\n"))
		}
	}
	return status, header, body
}

// expect fails the test unless the handler has run n times and counter is effects.
func (s *service) expect(runs int64, counter string, effects int) {
	s.t.Helper()
	if n := s.runs.Load(); n != runs {
		s.t.Errorf("the handler has run %d times, not %d", n, runs)
	}
	if v, _ := s.store.Get(counter); v != strconv.Itoa(effects) && (v != "" || effects != 0) {
		s.t.Errorf("%s effects, not %d", v, effects)
	}
}

// increment is the usual effect.
func increment(tx *memstore.Tx, counter string) int {
	v, _, err := tx.Get(counter)
	n, _ := strconv.Atoi(v)
	if err == nil {
		err = tx.Put(counter, strconv.Itoa(n+1))
	}
	if err != nil {
		panic(err)
	}
	return n + 1
}

// create is the usual handler: one more effect, told in the answer.
func create(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
	n := increment(tx, "n")
	w.Header().Set("Location", "/refunds/"+strconv.Itoa(n))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "refund "+strconv.Itoa(n))
}

// answers returns a handler with an effect and a fixed status.
func answers(status int) handler {
	return func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		n := increment(tx, "n")
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			_, _ = io.WriteString(w, "answer "+strconv.Itoa(n))
		}
	}
}

// events collects what the observer is told.
type events struct {
	mu   sync.Mutex
	list []once.Event
}

func (l *events) Observe(_ context.Context, e once.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e)
}

func (l *events) last() once.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return once.Event{}
	}
	return l.list[len(l.list)-1]
}

// roundTrip is for what needs no server, and for bubbles, where time is not real. Further header lines are pairs of name and value.
func roundTrip(h http.Handler, method, target, body, key string, header ...string) response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return response{w.Code, w.Result().Header, w.Body.String()}
}

// headHandler protects h with Handler, so that it runs for every method.
func headHandler(h handler) http.Handler {
	return oncehttp.Handler(once.New(memstore.New(), once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()}, h)
}
