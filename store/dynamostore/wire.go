package dynamostore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// wire is the client's way to the service. It hears the time of its answers, and notes for each write whether an answer is missing.
type wire struct {
	inner dynamodb.HTTPClient
	clock *clock
}

// delivery tracks the requests of one write: the client itself sends it again if that may help.
type delivery struct {
	staleAfter time.Time // it is too late to send it; zero: never
	open       bool      // the last request may have been applied, or may still be
	lost       bool      // an earlier request may have been applied, too
	late       bool      // it was not sent, because it was too late
}

type deliveryKey struct{}

var errLate = errors.New("the operation has no record, and its first attempt is older than the retention, so the record may have expired. Try: find out whether the operation has taken effect, before you use a new key")

// Do implements dynamodb.HTTPClient.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	d, _ := req.Context().Value(deliveryKey{}).(*delivery)
	if d == nil {
		d = new(delivery) // a read
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if t, ok := w.clock.estimate(); ok && !d.staleAfter.IsZero() && !t.Before(d.staleAfter) {
		d.late = true
		return nil, errLate
	}
	d.lost = d.lost || d.open
	d.open = true
	resp, err := w.inner.Do(req)
	switch {
	case err == nil:
		w.clock.hear(resp.Header.Get("Date"))
		d.open = resp.StatusCode < 400 || resp.StatusCode >= 500 // 400: it was refused. Otherwise: until its answer is read
	case notDialed(err):
		d.open = false
	}
	return resp, err
}

func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// uncertain reports whether a write that has failed may have been applied, or may still be.
func (d *delivery) uncertain() bool { return d.open || d.lost }

func (d *delivery) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}
