package killstorm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// receiver is a service that notes what reaches it.
func receiver(t *testing.T, h http.HandlerFunc) wire {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return wire{address: strings.TrimPrefix(server.URL, "http://"), tenant: "acme"}
}

// TestNetworkFaultsHitOneRequest: each does to a request what its name says, and to one request only.
func TestNetworkFaultsHitOneRequest(t *testing.T) {
	t.Parallel()
	type request struct {
		body string
		err  error
		gone bool // the client left before it was answered
	}
	for _, c := range []struct {
		fate fate
		err  error
		sent int
	}{{deliver, nil, 1}, {drop, errDropped, 1}, {hangUp, errHungUp, 1}, {cutOff, errCutOff, 0}} {
		got := make(chan request, 10)
		w := receiver(t, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if c.fate == hangUp {
				<-r.Context().Done()
			}
			got <- request{string(b), err, r.Context().Err() != nil}
			w.Header().Set("Location", "/here")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "made by "+r.Header.Get("Authorization")+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Once-Attempt"))
		})
		sent := 0
		w.sent = func() { sent++ }
		a, err := w.post(t.Context(), "/refunds", "k", "body", 3, c.fate)
		if !errors.Is(err, c.err) || sent != c.sent {
			t.Errorf("fate %d: %v, sent %d", c.fate, err, sent)
		}
		r := <-got
		if (r.err != nil) != (c.fate == cutOff) || r.err == nil && r.body != "body" || r.gone != (c.fate == hangUp || c.fate == cutOff) {
			t.Errorf("fate %d: the service got %+v", c.fate, r)
		}
		if c.fate == deliver && (a.status != 201 || string(a.body) != "made by Bearer acme k 3" || a.header.Get("Location") != "/here") {
			t.Errorf("answer %+v", a)
		}
		if len(got) > 0 {
			t.Errorf("fate %d: the service got it again", c.fate)
		}
	}
}

// TestRequestArrivesAndItsClientDies: the request arrives, and its client takes no answer as long as it lives.
func TestRequestArrivesAndItsClientDies(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	w := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
	})
	ctx, die := context.WithCancel(t.Context())
	left := make(chan struct{})
	w.sent = func() { close(left) }
	ended := make(chan error)
	go func() {
		_, err := w.post(ctx, "/refunds", "k", "body", 1, doom)
		ended <- err
	}()
	<-left
	if body := <-got; body != "body" {
		t.Errorf("the service got %q", body)
	}
	select {
	case err := <-ended:
		t.Errorf("it has an answer, or an error: %v", err)
	default:
	}
	die()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestNobodySendsAgain: a server that dies over a keyed POST has seen it once, where
// http.Transport would have sent it a second time on its own account.
func TestNobodySendsAgain(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	w := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Idempotency-Key")
		panic(http.ErrAbortHandler)
	})
	for range 3 {
		if _, err := w.post(t.Context(), "/refunds", "k", "body", 1, deliver); err == nil || reason(err) != "connection_lost" {
			t.Errorf("%v", err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("3 attempts, the server saw %d", len(seen))
	}
}

func TestReasonOfAFailedRequest(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:1" // no process listens at this port
	if _, err := (wire{address: address}).get(t.Context(), "/"); reason(err) != "server_down" {
		t.Errorf("%v is %s", err, reason(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (wire{address: address}).get(ctx, "/"); reason(err) != "gave_up" {
		t.Errorf("%v is %s", err, reason(err))
	}
}

// TestSameAnswerInAllAClientSees: whatever a client can see of an answer counts.
func TestSameAnswerInAllAClientSees(t *testing.T) {
	t.Parallel()
	made := func(status int, body string, header ...string) answer {
		a := answer{status, http.Header{}, []byte(body)}
		for i := 0; i < len(header); i += 2 {
			a.header.Set(header[i], header[i+1])
		}
		return a
	}
	first := made(201, "{}", "Location", "/a", "Idempotency-Status", "stored", "Date", "now")
	for _, c := range []struct {
		other answer
		same  bool
	}{
		{made(201, "{}", "Location", "/a", "Idempotency-Status", "replayed", "Date", "later"), true},
		{made(200, "{}", "Location", "/a"), false},
		{made(201, "{} ", "Location", "/a"), false},
		{made(201, "{}", "Location", "/b"), false},
		{made(201, "{}", "Location", "/a", "Content-Type", "text/plain"), false},
	} {
		if first.same(c.other) != c.same {
			t.Errorf("%+v", c.other)
		}
	}
}
