package console

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stalls is a writer without deadlines that blocks at the first byte of an answer until it is closed.
type stalls struct {
	*httptest.ResponseRecorder

	closed chan struct{}
}

func (w *stalls) Write(b []byte) (int, error) {
	<-w.closed
	return len(b), nil
}

// stallsReading is a body of which no byte arrives until it is closed.
type stallsReading chan struct{}

func (b stallsReading) Read([]byte) (int, error) {
	<-b
	return 0, io.EOF
}

// TestSlowConnectionsTakeNoPlace: requests whose forms do not arrive, and requests whose answers are not read, keep no other request waiting, also behind a writer without deadlines.
func TestSlowConnectionsTakeNoPlace(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(ctx context.Context, hold chan struct{}) (http.ResponseWriter, *http.Request){
		"a form does not arrive": func(ctx context.Context, hold chan struct{}) (http.ResponseWriter, *http.Request) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/find", stallsReading(hold))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			return httptest.NewRecorder(), r
		},
		"a form of several parts does not arrive": func(ctx context.Context, hold chan struct{}) (http.ResponseWriter, *http.Request) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/find", stallsReading(hold))
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
			return httptest.NewRecorder(), r
		},
		"an answer is not read": func(ctx context.Context, hold chan struct{}) (http.ResponseWriter, *http.Request) {
			return &stalls{httptest.NewRecorder(), hold}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/nowhere", http.NoBody)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := Handler(Config{User: func(*http.Request) (User, error) { return User{Name: "vic"}, nil }})
				hold := make(chan struct{})
				for range mostAtOnce {
					w, r := request(t.Context(), hold)
					go h.ServeHTTP(w, r)
				}
				synctest.Wait()
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/nowhere", http.NoBody))
				if w.Code != http.StatusNotFound {
					t.Errorf("another request is answered with %d", w.Code)
				}
				close(hold)
			})
		})
	}
}

// served returns a connection to a console on a server without timeouts.
func served(t *testing.T) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	s := &http.Server{Handler: Handler(Config{User: func(*http.Request) (User, error) { return User{Name: "vic"}, nil }})}
	go func() { _ = s.Serve(&oneConn{conn: theirs, closed: make(chan struct{})}) }()
	t.Cleanup(func() { _, _ = ours.Close(), s.Close() })
	return ours
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	close(l.closed)
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

const findForm = "POST /find HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 5\r\n\r\n"

// TestFormDoesNotArrive: a form whose rest does not arrive is refused after the time limit of a page, and its connection is closed.
func TestFormDoesNotArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := served(t)
		began := time.Now()
		go func() { _, _ = io.WriteString(conn, findForm+"key") }()
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if took := time.Since(began); err != nil || resp.StatusCode != http.StatusConflict || !strings.Contains(string(body), "send the form again") || took != readTime {
			t.Errorf("%d after %v, %v: %s", resp.StatusCode, took, err, body)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("the connection is not closed: %v", err)
		}
	})
}

// deadlines is a writer that records its read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder

	list []time.Time
}

func (w *deadlines) SetReadDeadline(at time.Time) error {
	w.list = append(w.list, at)
	return nil
}

// TestDeadlineOfAFormEndsWithIt: the time limit of a form is set before the form is read, and is removed when the form has arrived, because the connection serves other requests later.
func TestDeadlineOfAFormEndsWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/find", strings.NewReader("key=1"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		began := time.Now()
		Handler(Config{User: func(*http.Request) (User, error) { return User{Name: "vic"}, nil }}).ServeHTTP(w, r)
		if len(w.list) != 2 || !w.list[0].Equal(began.Add(readTime)) || !w.list[1].IsZero() || w.Code != http.StatusSeeOther {
			t.Errorf("the deadlines are %v, and the answer is %d", w.list, w.Code)
		}
	})
}
