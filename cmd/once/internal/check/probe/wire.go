package probe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is an answer. A status of 0 means that the connection ended without an answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// crashed reports whether the service failed, or did not answer.
func (a answer) crashed() bool {
	return a.status == 0 || a.status >= 500 && a.status != http.StatusServiceUnavailable
}

// busy reports whether the answer asks the client to send the request again later.
func (a answer) busy() bool {
	switch a.status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

func (a answer) String() string {
	if a.status == 0 {
		return "no answer"
	}
	return strconv.Itoa(a.status)
}

// message is the request with a key, and with the changes of a check.
type message struct {
	keys   []string    // the values of the header; an empty list means no header
	body   []byte      // nil means the body of the request
	header http.Header // replaces headers of the request
}

const (
	mostBytes = 1 << 20 // of an answer that are compared
	silence   = time.Minute
)

// wire is a connection with one request, of which a part may not be sent yet.
type wire struct {
	conn net.Conn
	rest []byte
	stop func() bool
}

// open connects, and sends a request except its last bytes; head is the length of the part before the body.
func (p *Probe) open(ctx context.Context, m message, keep func(whole []byte, head int) int) (*wire, error) {
	whole, head, err := p.bytes(m)
	if err != nil {
		return nil, err
	}
	p.requests.Add(1)
	conn, err := p.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("the API at %s cannot be reached: %w. Try: start the API, and use its address", p.Request.URL.Host, err)
	}
	_ = conn.SetDeadline(time.Now().Add(silence)) // an error means that the connection has ended, which the next write or read reports
	w := &wire{conn: conn, stop: context.AfterFunc(ctx, func() { conn.Close() })}
	n := len(whole) - keep(whole, head)
	w.rest = whole[n:]
	if _, err := conn.Write(whole[:n]); err != nil {
		w.rest = nil // the server may have answered early: its answer says more than the error
	}
	return w, nil
}

// bytes returns the bytes of a request, and the length of its head.
func (p *Probe) bytes(m message) ([]byte, int, error) {
	body := p.Request.Body
	if m.body != nil {
		body = m.body
	}
	r, err := p.Request.New(context.Background(), p.KeyHeader, body)
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(r.Header, m.header)
	if len(m.keys) > 0 {
		r.Header[http.CanonicalHeaderKey(p.KeyHeader)] = m.keys
	}
	r.Close = true
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return nil, 0, err
	}
	return b.Bytes(), b.Len() - len(body), nil
}

func (p *Probe) dial(ctx context.Context) (net.Conn, error) {
	u := p.Request.URL
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := p.connect(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "http" {
		return conn, err
	}
	t := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12})
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return t, nil
}

// finish sends the rest of the request.
func (w *wire) finish() {
	if _, err := w.conn.Write(w.rest); err == nil {
		w.rest = nil
	}
}

// cut ends the connection, like a client that has died.
func (w *wire) cut() {
	w.stop()
	w.conn.Close()
}

// read reads the answer, and ends the connection.
func (w *wire) read(method string) answer {
	defer w.cut()
	r := bufio.NewReader(w.conn)
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return answer{}
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes))
		resp.Body.Close()
		if err != nil {
			return answer{}
		}
		if resp.StatusCode >= 200 { // 103 Early Hints may come before it
			return answer{resp.StatusCode, resp.Header, body}
		}
	}
}

// nothing holds back no bytes.
func nothing([]byte, int) int { return 0 }

// half holds back half of the body.
func half(whole []byte, head int) int { return (len(whole) - head + 1) / 2 }

// last holds back the last byte.
func last([]byte, int) int { return 1 }

// send sends one request and waits for its answer.
func (p *Probe) send(ctx context.Context, m message) (answer, error) {
	if err := p.pace.take(ctx, 1); err != nil {
		return answer{}, err
	}
	w, err := p.open(ctx, m, nothing)
	if err != nil {
		return answer{}, err
	}
	return w.read(p.Request.Method), ctx.Err()
}

// atOnce sends requests, and then the last bytes of all of them at the same moment.
func (p *Probe) atOnce(ctx context.Context, messages []message) ([]answer, error) {
	if err := p.pace.take(ctx, len(messages)); err != nil {
		return nil, err
	}
	wires := make([]*wire, 0, len(messages))
	defer func() {
		for _, w := range wires {
			w.cut()
		}
	}()
	for _, m := range messages {
		w, err := p.open(ctx, m, last)
		if err != nil {
			return nil, err
		}
		wires = append(wires, w)
	}
	done := make(chan answer, len(wires))
	for _, w := range wires {
		w.finish()
	}
	for _, w := range wires {
		go func() { done <- w.read(p.Request.Method) }()
	}
	var answers []answer
	for range wires {
		answers = append(answers, <-done)
	}
	return answers, ctx.Err()
}

// mediaType is the type of an answer, without parameters.
func (a answer) mediaType() string {
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}
