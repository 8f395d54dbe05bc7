package killstorm

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// network is an http.RoundTripper that sends each request on a new connection, with the fault that [task.fate] has chosen for the attempt.
type network struct{ *Worker }

func (n network) RoundTrip(req *http.Request) (*http.Response, error) {
	t := taskOf(req.Context())
	number, _ := strconv.Atoi(req.Header.Get("Once-Attempt"))
	delay := t.delay
	w := wire{address: n.Address, tenant: n.Tenant, sent: func() { _ = n.tell.write(event{Kind: left, Job: t.ID}) }}
	a, err := w.send(req.Context(), req.Clone(req.Context()), t.fate())
	if req.Body != nil {
		req.Body.Close()
	}
	v := judge(a, err)
	_ = n.tell.write(event{
		Kind: tried, Job: t.ID, Key: req.Header.Get("Idempotency-Key"), Attempt: number, Delay: delay,
		Word: v.word, Status: v.status, Code: v.code,
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}, nil
}
