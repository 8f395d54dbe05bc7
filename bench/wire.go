package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// wires are kept-alive connections to a service, one for each client. They cost little, so that mostly the service is measured.
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

// post sends a request, and compares the body of its answer with want; nil means any body, which is returned. header has additional lines, or is
// empty.
func (w *wires) post(key, header string, body, want []byte) (got []byte, err error) {
	one := <-w.free
	defer func() { w.free <- one }()
	return one.post(key, header, body, want)
}

func (w *wire) post(key, header string, body, want []byte) (got []byte, err error) {
	w.out.Reset()
	w.out.WriteString("POST /charges HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nIdempotency-Key: ")
	w.out.WriteString(key)
	w.out.WriteString("\r\n")
	w.out.WriteString(header)
	w.out.WriteString("Content-Length: ")
	w.out.WriteString(strconv.Itoa(len(body)))
	w.out.WriteString("\r\n\r\n")
	w.out.Write(body)
	if _, err := w.conn.Write(w.out.Bytes()); err != nil {
		return nil, err
	}
	status, err := w.answer()
	if err != nil {
		return nil, err
	}
	switch got := w.body.Bytes(); {
	case status != "201":
		return nil, fmt.Errorf("%s: %s", status, got)
	case want == nil:
		return bytes.Clone(got), nil
	case !bytes.Equal(got, want):
		return nil, errExecuted
	}
	return nil, nil
}

// answer reads an answer with a Content-Length.
func (w *wire) answer() (status string, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(" "))
		switch {
		case first && len(value) >= 3:
			if status = "201"; string(value[:3]) != status {
				status = string(value)
			}
		case bytes.EqualFold(name, []byte("Content-Length:")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", err
			}
		case len(line) == 0 && length < 0:
			return "", errors.New("an answer that does not say how long it is")
		case len(line) == 0:
			w.body.Reset()
			_, err := io.CopyN(&w.body, w.in, int64(length))
			return status, err
		}
	}
}
