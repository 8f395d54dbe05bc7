package roundtrippertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"
)

// streamChecks are about answers that are more than a header and a body.
var streamChecks = []Check{
	{"EarlyHints", "103 reaches the trace of the caller, and the caller gets the final answer", (*lab).earlyHints},
	{"EarlyHintsThenReset", "a keyed POST whose connection is reset after 103 is repeated", (*lab).earlyHintsThenReset},
	{"SwitchingProtocols", "after 101, the caller can write to the body of the answer", (*lab).switchingProtocols},
	{"ServerSentEvents", "the caller gets a server-sent event before the answer ends", func(l *lab) error { return l.events(http.MethodGet) }},
	{"ServerSentEventsKeyed", "the caller of a keyed POST gets a server-sent event before the answer ends", func(l *lab) error { return l.events(http.MethodPost) }},
	{"Trailers", "the caller gets the trailers of a keyed POST after the body", func(l *lab) error { return l.trailers(false) }},
	{"TrailersHTTP2", "over HTTP/2 the caller gets the trailers of a keyed POST after the body, and the stream is not reset", func(l *lab) error { return l.trailers(true) }},
}

func (l *lab) earlyHints() error {
	s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	var hints atomic.Int32
	ctx := httptrace.WithClientTrace(l.ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		if code == http.StatusEarlyHints {
			hints.Add(1)
		}
		return nil
	}})
	a, err := l.do(ctx, l.client(), http.MethodPost, s.URL, testBody, keyed)
	if n := hints.Load(); err == nil && n != 1 {
		err = fmt.Errorf("the client trace (httptrace.Got1xxResponse) was called %d times, not once", n)
	}
	return errors.Join(wantStatus(a, err, 200), s.wantSends(1))
}

func (l *lab) earlyHintsThenReset() error {
	s := l.serve(func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusEarlyHints)
			reset(w)
		}
	})
	a, err := l.post(l.client(), s.URL)
	return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same(testKey, testBody))
}

func (l *lab) switchingProtocols() error {
	s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	})
	r, err := http.NewRequestWithContext(l.ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := l.client().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	stream, ok := resp.Body.(io.Writer)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		return fmt.Errorf("the answer is %d, and its body has the type %T", resp.StatusCode, resp.Body)
	}
	if _, err := io.WriteString(stream, "hello\n"); err != nil {
		return err
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "hello\n" {
		return fmt.Errorf("the echo is %q, %w", line, err)
	}
	return s.wantSends(1)
}

// events fails if the first event does not reach the caller before the second is sent.
func (l *lab) events(method string) error {
	arrived := make(chan struct{})
	s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-arrived:
			_, _ = io.WriteString(w, "data: 2\n\n")
		case <-time.After(5 * time.Second): // so that a client that waits for the end fails
		}
	})
	r, err := http.NewRequestWithContext(l.ctx, method, s.URL, nil)
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		keyed(r)
	}
	resp, err := l.client().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	first := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		return err
	}
	close(arrived)
	if rest, err := io.ReadAll(resp.Body); string(rest) != "data: 2\n\n" || err != nil {
		return fmt.Errorf("after the first event, the rest of the answer is %q, and the error is %w", rest, err)
	}
	return s.wantSends(1)
}

func (l *lab) trailers(http2 bool) error {
	var cut atomic.Bool
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "Sum")
		if http2 {
			w.Header().Set("Content-Length", "4")
		}
		_, _ = io.WriteString(w, "text")
		_ = http.NewResponseController(w).Flush()
		select { // the end of the stream comes in a frame of its own, and later
		case <-r.Context().Done():
			cut.Store(true)
		case <-time.After(100 * time.Millisecond):
		}
		w.Header().Set("Sum", "5")
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c := l.client()
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
		trust := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		c.base.TLSClientConfig, c.base.ForceAttemptHTTP2 = trust, true
	} else {
		s.Start()
	}
	l.atEnd(func() {
		s.CloseClientConnections()
		s.Close()
	})
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(testBody))
	if err != nil {
		return err
	}
	keyed(r)
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "text" {
		return fmt.Errorf("the body is %q, %w", body, err)
	}
	if sum := resp.Trailer.Get("Sum"); sum != "5" {
		return fmt.Errorf("the trailer is %q", sum)
	}
	if cut.Load() {
		return errors.New("the stream was reset before its end")
	}
	return nil
}
