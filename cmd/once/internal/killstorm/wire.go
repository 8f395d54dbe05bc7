package killstorm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// wire sends one request on a connection of its own, so that the storm counts exactly the requests that were sent. http.Transport does not
// count exactly: it repeats a POST with a key by itself if a kept-alive connection has ended.
type wire struct {
	address string // host:port
	tenant  string
	trace   string // the traceparent; "" if none is sent
	sent    func() // called when a whole request is sent
}

// answer is an answer of the service.
type answer struct {
	status int
	header http.Header
	body   []byte
}

var (
	errDropped = errors.New("the answer was dropped")
	errHungUp  = errors.New("the client hung up")
	errCutOff  = errors.New("the request was cut off")
)

const patience = 20 * time.Second

func (w wire) get(ctx context.Context, path string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+path, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	return w.send(ctx, req, deliver)
}

// post sends the attempt with this number.
func (w wire) post(ctx context.Context, path, key, body string, attempt int, f fate) (answer, error) {
	req, err := w.request(ctx, path, key, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Once-Attempt", strconv.Itoa(attempt))
	if w.trace != "" {
		req.Header.Set("Traceparent", w.trace)
	}
	return w.send(ctx, req, f)
}

// request returns a POST with a key.
func (w wire) request(ctx context.Context, path, key, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	return req, nil
}

func (w wire) send(ctx context.Context, req *http.Request, f fate) (answer, error) {
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+w.tenant)
	var text bytes.Buffer
	if err := req.Write(&text); err != nil {
		return answer{}, err
	}
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", w.address)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a cancelled storm does not wait for the server
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, err
	}
	return w.exchange(ctx, conn, req, text.Bytes(), f)
}

func (w wire) exchange(ctx context.Context, conn net.Conn, req *http.Request, text []byte, f fate) (answer, error) {
	if f == cutOff {
		_, err := conn.Write(text[:len(text)-int(req.ContentLength+1)/2])
		return answer{}, errors.Join(errCutOff, err)
	}
	if _, err := conn.Write(text); err != nil {
		return answer{}, err
	}
	if w.sent != nil {
		w.sent()
	}
	if f == doom {
		<-ctx.Done()
		return answer{}, ctx.Err()
	}
	if f == hangUp {
		return answer{}, errHungUp // the server sees an orderly end: the context of its handler is cancelled, although the request is complete
	}
	r := bufio.NewReader(conn)
	if f == drop {
		if _, err := r.Peek(1); err != nil {
			return answer{}, err // the server was killed before it could answer
		}
		return answer{}, errors.Join(errDropped, reset(conn))
	}
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err // the server was killed while it answered
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

// reset makes Close discard unsent data, as after the crash of a client.
func reset(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return tcp.SetLinger(0)
	}
	return nil
}

// same reports whether b repeats a in everything that a client sees of an answer.
func (a answer) same(b answer) bool {
	if a.status != b.status || !bytes.Equal(a.body, b.body) {
		return false
	}
	for _, name := range []string{"Content-Type", "Location", "ETag"} {
		if a.header.Get(name) != b.header.Get(name) {
			return false
		}
	}
	return true
}
