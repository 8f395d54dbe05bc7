package home_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/home"
)

// at returns a handler of the region eu, for which all others are at one address.
func at(region, address string, m *home.Map, next http.HandlerFunc, change ...func(*home.Config)) http.Handler {
	cfg := home.Config{
		Region: region, Map: m, Tenant: func(r *http.Request) string { return r.Header.Get("Tenant") },
		URL: func(string) *url.URL { return &url.URL{Scheme: "http", Host: address} },
	}
	for _, c := range change {
		c(&cfg)
	}
	return home.Handler(cfg, next)
}

func pinned(region string) *home.Map {
	m := home.NewMap("ap", "eu", "us")
	m.Pin("acme", home.Pin{Region: region, Epoch: 7})
	return m
}

// ask sends a request of acme to a handler.
func ask(h http.Handler, method, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/pay%2Fx?a=1", strings.NewReader(body))
	r.Header.Set("Tenant", "acme")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

type problem struct {
	Code, Home       string
	HomeEpoch        int64 `json:"home_epoch"`
	Retryable        bool
	SafeNewKey       bool `json:"safe_new_key"`
	status, arrivals int
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p problem) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	p.status = w.Code
	return p
}

func never(http.ResponseWriter, *http.Request) { panic("executed in a region that is not the home") }

// TestForwardedWhole: a request of another region's tenant reaches its home as it is, and the answer comes back as it is. Requests of
// own tenants, and of none, stay.
func TestForwardedWhole(t *testing.T) {
	t.Parallel()
	us := httptest.NewServer(at("us", "", pinned("us"), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range []string{"Idempotency-Key", home.HopHeader, "X-Forwarded-For", "Connection", "X-Hop", "User-Agent"} {
			w.Header().Set("Got-"+name, strings.Join(r.Header.Values(name), "|"))
		}
		w.Header().Set("Trailer", "Sum")
		w.Header().Set("Keep-Alive", "timeout=1")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.RequestURI, body)
		w.Header().Set("Sum", "7")
	}))
	t.Cleanup(us.Close)
	h := at("eu", us.Listener.Addr().String(), pinned("us"), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	w := ask(h, http.MethodPost, "body", "Idempotency-Key", "k", "X-Forwarded-For", "10.0.0.1", "Connection", "X-Hop", "X-Hop", "no")
	want := map[string]string{
		"Got-Idempotency-Key": "k", "Got-Once-Home-Hop": "eu", "Got-X-Forwarded-For": "10.0.0.1, 192.0.2.1", "Got-X-Hop": "", "Got-User-Agent": "", "Keep-Alive": "",
	}
	got := w.Result()
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if w.Code != http.StatusAccepted || w.Body.String() != "POST example.com /pay%2Fx?a=1 body" || w.Header().Get(http.TrailerPrefix+"Sum") != "7" {
		t.Error(w.Code, w.Body, w.Header())
	}
	for _, tenant := range []string{"", "mine"} {
		m := pinned("us")
		m.Pin("mine", home.Pin{Region: "eu", Epoch: 1})
		h := at("eu", "", m, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
		if w := ask(h, http.MethodPost, "", "Tenant", tenant); w.Body.String() != "here" {
			t.Errorf("tenant %q: %d %s", tenant, w.Code, w.Body)
		}
	}
}

// TestForwardedOnce: a request is forwarded once, whatever becomes of it, and its answer is passed on whole or not at all. Its client is told to
// send the same key again; without a key, it is told so only if nothing can have been executed.
func TestForwardedOnce(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
	key := []string{"Idempotency-Key", "k"}
	for name, c := range map[string]struct {
		method, body, answer string
		header               []string
		want                 problem
	}{
		"no answer":              {"POST", "b", "", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"no answer, no body":     {"POST", "", "", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"no answer to a read":    {"GET", "", "", nil, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"no answer without key":  {"POST", "b", "", nil, problem{Code: "DEPENDENCY.home_answer_lost", status: 502, arrivals: 1}},
		"no answer to a MOVE":    {"MOVE", "b", "", nil, problem{Code: "DEPENDENCY.home_answer_lost", status: 502, arrivals: 1}},
		"no answer to a MERGE":   {"MERGE", "b", "", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"half an answer":         {"POST", "b", ok + "o", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"an answer without end":  {"POST", "b", "HTTP/1.1 200 OK\r\n\r\nok", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"too long an answer":     {"POST", "b", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"another protocol":       {"POST", "b", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", key, problem{Code: "TRANSIENT.home_unavailable", Retryable: true, status: 503, arrivals: 1}},
		"too long a request":     {"POST", "123456789", ok + "yes", key, problem{Code: "VALIDATION.body_too_large", SafeNewKey: true, status: 413}},
		"an answer to a request": {"POST", "b", ok + "yes", key, problem{status: 200, arrivals: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var arrivals atomic.Int32
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						in := bufio.NewReader(conn)
						for { // the first request leaves a connection in the pool, which the next one finds
							r, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							if body, _ := io.ReadAll(r.Body); string(body) == "warm" {
								_, _ = io.WriteString(conn, ok+"yes")
								continue
							}
							arrivals.Add(1)
							_, _ = io.WriteString(conn, c.answer)
							if !strings.HasPrefix(c.answer, ok+"yes") {
								return
							}
						}
					}()
				}
			}()
			h := at("eu", l.Addr().String(), pinned("us"), never, func(c *home.Config) { c.MaxBody = 8 })
			if w := ask(h, http.MethodPost, "warm"); w.Code != http.StatusOK {
				t.Fatal(w.Code, w.Body)
			}
			w := ask(h, c.method, c.body, c.header...)
			got := problem{status: w.Code}
			if w.Code != http.StatusOK {
				got = problemOf(t, w)
			}
			if got.arrivals = int(arrivals.Load()); got.status >= 500 {
				c.want.Home = "us"
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestHomeDown: a home that is not reached is 503, and the same key may be sent again; so may a request without a key, which was not executed.
func TestHomeDown(t *testing.T) {
	t.Parallel()
	const unused = "127.0.0.1:1" // a port that no other process gets by chance
	for _, h := range []http.Handler{
		at("eu", unused, pinned("us"), never),
		at("eu", "", pinned("us"), never, func(c *home.Config) { c.URL = func(string) *url.URL { return nil } }),
	} {
		for _, key := range []string{"k", ""} {
			w := ask(h, http.MethodPost, "b", "Idempotency-Key", key)
			if p := problemOf(t, w); p != (problem{Code: "TRANSIENT.home_unavailable", Home: "us", Retryable: true, status: 503}) || w.Header().Get("Retry-After") == "" {
				t.Errorf("%+v %v", p, w.Header())
			}
		}
	}
}

// TestMapsDiffer: two regions that each take the other one for the home send a request to and fro once, and answer 421 with what the second one knows.
func TestMapsDiffer(t *testing.T) {
	t.Parallel()
	var hops atomic.Int32
	count := func(region string, m *home.Map) *httptest.Server {
		var other http.Handler
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hops.Add(1) < 4 {
				other.ServeHTTP(w, r)
			}
		}))
		t.Cleanup(s.Close)
		other = at(region, s.Listener.Addr().String(), m, never)
		return s
	}
	us := count("us", pinned("eu"))
	w := ask(at("eu", us.Listener.Addr().String(), pinned("us"), never), http.MethodPost, "b", "Idempotency-Key", "k")
	if p := problemOf(t, w); p != (problem{Code: "TRANSIENT.home_elsewhere", Home: "eu", HomeEpoch: 7, Retryable: true, status: 421}) || hops.Load() != 1 {
		t.Errorf("%+v after %d hops", p, hops.Load())
	}
}
