package dynamostore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// wire is the HTTP client of a store. It reads the service's time from each answer, and notes for each write whether an answer is missing.
type wire struct {
	inner dynamodb.HTTPClient
	clock *clock
}

// delivery tracks the requests of one write. The client may send a write several times.
type delivery struct {
	staleAfter time.Time // from this time on the write is too late to be sent; zero: never too late
	open       bool      // the last request may have been applied, or may still be
	lost       bool      // an earlier request may have been applied as well
	late       bool      // the write was not sent, because it was too late
}

type deliveryKey struct{}

var errLate = errors.New("the operation has no record, and its first attempt is older than the retention, so the record may have expired. Try: find out whether the operation has taken effect, before you use a new key")

// Do implements dynamodb.HTTPClient.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	d, _ := req.Context().Value(deliveryKey{}).(*delivery)
	if d == nil {
		d = new(delivery) // a read: its delivery is not looked at
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	// Checked for each request, because the client's pauses between its attempts may be long.
	if t, ok := w.clock.estimate(); ok && !d.staleAfter.IsZero() && !t.Before(d.staleAfter) {
		d.late = true
		return nil, errLate
	}
	// Until an answer says otherwise, each request counts as one that may be applied.
	d.lost = d.lost || d.open
	d.open = true
	resp, err := w.inner.Do(req)
	switch {
	case err == nil:
		w.clock.hear(resp.Header.Get("Date"))
		d.open = resp.StatusCode < 400 || resp.StatusCode >= 500 // 4xx: the request was refused. Otherwise the answer must be read first
	case notDialed(err):
		d.open = false
	}
	return resp, err
}

// notDialed reports whether err says that no connection was made, so nothing was sent.
func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// uncertain reports whether a write that has failed may have been applied, or may still be applied.
func (d *delivery) uncertain() bool { return d.open || d.lost }

// in returns a context that carries d to [wire.Do].
func (d *delivery) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}
