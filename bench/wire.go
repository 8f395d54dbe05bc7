package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// wires are kept-alive connections to a service, one for each client. They cost little,
// so that what is measured is mostly the service.
type wires struct{ free chan *wire }

type wire struct {
	conn net.Conn
	in   *bufio.Reader
	out  bytes.Buffer
	body bytes.Buffer
}

func dial(ctx context.Context, addr string, n int) (*wires, error) {
	w := &wires{make(chan *wire, n)}
	for range n {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.free <- &wire{conn: conn, in: bufio.NewReader(conn)}
	}
	return w, nil
}

func (w *wires) close() (err error) {
	for {
		select {
		case one := <-w.free:
			err = errors.Join(err, one.conn.Close())
		default:
			return err
		}
	}
}

// post sends a request, and holds the body of its answer against want; nil: anything,
// which is returned.
func (w *wires) post(key string, body, want []byte) (got []byte, err error) {
	one := <-w.free
	defer func() { w.free <- one }()
	return one.post(key, body, want)
}

func (w *wire) post(key string, body, want []byte) (got []byte, err error) {
	w.out.Reset()
	w.out.WriteString("POST /charges HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nIdempotency-Key: ")
	w.out.WriteString(key)
	w.out.WriteString("\r\nContent-Length: ")
	w.out.WriteString(strconv.Itoa(len(body)))
	w.out.WriteString("\r\n\r\n")
	w.out.Write(body)
	if _, err := w.conn.Write(w.out.Bytes()); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, err
	}
	w.body.Reset()
	if _, err := io.Copy(&w.body, resp.Body); err != nil {
		return nil, err
	}
	switch got := w.body.Bytes(); {
	case resp.StatusCode != http.StatusCreated:
		return nil, fmt.Errorf("%s: %s", resp.Status, got)
	case want == nil:
		return bytes.Clone(got), nil
	case !bytes.Equal(got, want):
		return nil, errExecuted
	}
	return nil, nil
}
