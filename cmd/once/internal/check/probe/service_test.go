package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once/cmd/once/internal/request"
)

// service keeps its keys by hand, and rightly, but for its bug.
type service struct {
	bug string // or several, with " + " between them

	mu      sync.Mutex
	changed *sync.Cond
	stored  map[string]*operation
	order   []string // of keys
	effects int64
	bodies  int // answers that were made
	open    int // connections, as the client counts them
	looked  int // requests that have looked for their key, and are not answered
}

type operation struct {
	hash       [32]byte
	isDone     bool
	status     int
	location   string
	body, kind string
}

// with reports whether the service has a bug.
func (s *service) with(bug string) bool { return slices.Contains(strings.Split(s.bug, " + "), bug) }

func refuse(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"status":%d}`, code)
}

// key reads the header, and returns a status where it is refused.
func (s *service) key(r *http.Request) (key string, refused int) {
	lines := r.Header.Values("Idempotency-Key")
	if len(lines) != 1 {
		return "", http.StatusBadRequest
	}
	key, isQuoted := strings.CutPrefix(lines[0], `"`)
	key, isClosed := strings.CutSuffix(key, `"`)
	if isClosed != isQuoted {
		return "", http.StatusBadRequest
	}
	if s.with("truncates") {
		key = key[:min(len(key), 200)]
	}
	if key == "" && !s.with("empty key") || len(key) > 255 {
		return "", http.StatusBadRequest
	}
	if s.with("folds") {
		key = strings.ToLower(key)
	}
	if !s.with("all callers") {
		key = r.Header.Get("Authorization") + "\x00" + key
	}
	return key, 0
}

// meet waits until all requests that were sent at once have looked for their key: these overlap then, on any machine.
func (s *service) meet() {
	s.changed.Broadcast()
	for s.open >= 3 && s.looked < s.open {
		s.changed.Wait()
	}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, refused := s.key(r)
	if refused != 0 {
		refuse(w, refused)
		return
	}
	isTaken := s.with("takes the key before the body") && s.stored[key] == nil
	if isTaken {
		s.stored[key] = &operation{}
	}
	s.mu.Unlock()
	b, err := io.ReadAll(r.Body)
	s.mu.Lock()
	if err != nil {
		return // the client has gone
	}
	if s.with("hashes headers") {
		b = append([]byte(r.UserAgent()), b...)
	}
	hash := sha256.Sum256(b)
	s.looked++
	defer func() { s.looked--; s.changed.Broadcast() }()
	if o := s.stored[key]; o != nil && !isTaken {
		s.again(w, o, hash)
		return
	}
	if !bytes.HasSuffix(b, []byte("}")) {
		delete(s.stored, key)
		if s.with("stores failures") {
			s.stored[key] = &operation{hash: hash, isDone: true, status: http.StatusBadRequest, body: `{"status":400}`, kind: "application/problem+json"}
		}
		refuse(w, http.StatusBadRequest)
		return
	}
	s.execute(w, key, &operation{hash: hash, status: http.StatusCreated, kind: "application/json"})
}

func (s *service) execute(w http.ResponseWriter, key string, o *operation) {
	if !s.with("checks then acts") {
		s.stored[key] = o
	}
	s.meet()
	s.effects++
	o.location, o.body, o.isDone = fmt.Sprintf("/charges/%d", s.effects), fmt.Sprintf(`{"id":%d}`, s.effects), true
	if s.with("answers ok") {
		o.location, o.body = "/charges", "ok"
	}
	if s.with("answers the key") {
		_, bare, _ := strings.Cut(key, "\x00")
		o.location, o.body = "/charges", fmt.Sprintf(`{"key":%q,"status":"charged"}`, bare)
	}
	if s.stored[key] = o; s.with("no keys") {
		delete(s.stored, key)
	}
	if s.order = append(s.order, key); s.with("keeps few keys") && len(s.order) > 8 {
		delete(s.stored, s.order[0])
		s.order = s.order[1:]
	}
	s.write(w, o)
}

// again answers a request under a key that is taken.
func (s *service) again(w http.ResponseWriter, o *operation, hash [32]byte) {
	replay := *o
	switch isOther := o.hash != hash; {
	case !o.isDone && s.with("fails in flight"):
		refuse(w, http.StatusInternalServerError)
		return
	case !o.isDone:
		if !s.with("no Retry-After") {
			w.Header().Set("Retry-After", "1")
		}
		refuse(w, http.StatusConflict)
		return
	case isOther && s.with("executes a mismatch"):
		s.effects++
		replay.body = fmt.Sprintf(`{"id":%d}`, s.effects)
	case isOther && !s.with("compares no bodies") && (!s.with("stores failures") || o.status == http.StatusCreated):
		refuse(w, http.StatusUnprocessableEntity)
		return
	case s.with("executes retries"):
		s.effects++
	case s.with("refuses retries"):
		refuse(w, http.StatusConflict)
		return
	case s.with("makes answers anew"):
		s.bodies++
		replay.body = fmt.Sprintf(`{"id":"again %d"}`, s.bodies)
	}
	if s.with("forgets the status") {
		replay.status = http.StatusOK
	}
	if s.with("forgets headers") {
		replay.location = ""
	}
	s.write(w, &replay)
}

func (s *service) write(w http.ResponseWriter, o *operation) {
	w.Header().Set("Content-Type", o.kind)
	if o.location != "" {
		w.Header().Set("Location", o.location)
	}
	w.WriteHeader(o.status)
	_, _ = io.WriteString(w, o.body) // to a client that may have gone
}

func (s *service) count(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects, nil
}

// counted is a connection that its service knows to be open.
type counted struct {
	net.Conn

	s    *service
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.s.opened(-1) })
	return c.Conn.Close()
}

func (s *service) opened(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
	s.changed.Broadcast()
}

// serve serves h, and returns what checks it.
func serve(t *testing.T, h http.Handler) *Probe {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{
		Request: &request.Request{
			Method: http.MethodPost, URL: u, Body: []byte(`{"amount":5000}`),
			Header: http.Header{"Authorization": {"Bearer acme"}, "Content-Type": {"application/json"}},
		},
		As: http.Header{"Authorization": {"Bearer zoe"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serveByHand serves the service with a bug.
func serveByHand(t *testing.T, bug string, isCounted bool) (*Probe, *service) {
	t.Helper()
	s := &service{bug: bug, stored: map[string]*operation{}}
	s.changed = sync.NewCond(&s.mu)
	p := serve(t, s)
	connect := p.connect
	p.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s.opened(1)
		return &counted{Conn: conn, s: s}, nil
	}
	if isCounted {
		p.Effects = s.count
	}
	return p, s
}
