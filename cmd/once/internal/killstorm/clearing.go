package killstorm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// Clearing is a clearing house between two banks. It forwards requests, and loses, doubles and delays some. It writes all requests into a file, so
// that it can be killed.
type Clearing struct {
	to string // address of the second bank

	mu    sync.Mutex
	file  *os.File
	tries map[string]int           // requests by transfer and path, since the start
	seen  map[string]chan struct{} // by transfer; closed when one of its requests has reached the second bank
	late  atomic.Int64             // requests that are still delayed although their client has disconnected
}

// Faults of the first request of a transfer on each path, by its number.
const (
	losesAnswer   = iota // the request is forwarded, and its answer is lost
	losesRequest         // the request is lost
	delaysRequest        // the request arrives after the next one of its transfer, which may be its undo
	doubles              // the request is forwarded twice at the same time
	clearingMishaps
)

// OpenClearing opens the clearing house with its file.
func OpenClearing(path, to string) (*Clearing, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &Clearing{to: to, file: f, tries: map[string]int{}, seen: map[string]chan struct{}{}}, err
}

// ServeHTTP implements [http.Handler].
func (c *Clearing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthz":
		return
	case "/late":
		if c.late.Load() > 0 {
			w.WriteHeader(http.StatusAccepted)
		}
		return
	case depositsPath, undosPath:
	default:
		http.NotFound(w, r)
		return
	}
	var t transfer
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d := deed{Order: t.Name, Key: r.URL.Path}
	first := c.arrived(d)
	switch mishap := t.Number % clearingMishaps; {
	case first && mishap == losesRequest:
		panic(http.ErrAbortHandler)
	case first && mishap == delaysRequest && r.URL.Path == depositsPath:
		c.late.Add(1)
		go func() {
			defer c.late.Add(-1)
			<-c.passed(t.Name)
			c.pass(context.WithoutCancel(r.Context()), r, body, d)
		}()
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case first && mishap == doubles:
		var copies sync.WaitGroup
		copies.Go(func() { c.pass(r.Context(), r, body, d) })
		defer copies.Wait()
	case first && mishap == losesAnswer:
		c.pass(r.Context(), r, body, d)
		panic(http.ErrAbortHandler)
	}
	status, answer := c.pass(r.Context(), r, body, d)
	d.What = "answered"
	c.note(d)
	w.WriteHeader(status)
	_, _ = w.Write(answer) // after a lost connection the bank asks again
}

// arrived counts a request, and reports whether it is the first of its kind for the transfer.
func (c *Clearing) arrived(d deed) (first bool) {
	d.What = "request"
	c.note(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries[d.Key+d.Order]++
	return c.tries[d.Key+d.Order] == 1
}

// note writes a request to the file, so that it is kept after a kill.
func (c *Clearing) note(d deed) {
	b, err := json.Marshal(d)
	if err == nil {
		_, err = c.file.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// pass forwards a request to the second bank.
func (c *Clearing) pass(ctx context.Context, r *http.Request, body []byte, d deed) (status int, answer []byte) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.to+r.URL.Path, bytes.NewReader(body)) //nolint:gosec // two paths of the second bank
	if err != nil {
		return http.StatusBadGateway, nil
	}
	for _, name := range []string{keyHeader, "Once-Undoes"} {
		if key := r.Header.Get(name); key != "" {
			out.Header.Set(name, key)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return http.StatusBadGateway, nil
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return http.StatusBadGateway, nil
	}
	switch said := resp.Header.Get("Idempotency-Status"); {
	case said == "undone" || said == "nothing":
		d.What = said
		c.note(d)
	case strings.Contains(string(answer), "CONFLICT.idempotency.undone"):
		d.What = "refused"
		c.note(d)
	}
	passed := c.passed(d.Order)
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-passed:
	default:
		close(passed)
	}
	return resp.StatusCode, answer
}

// passed is closed when a request of a transfer has reached the second bank.
func (c *Clearing) passed(transfer string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[transfer] == nil {
		c.seen[transfer] = make(chan struct{})
	}
	return c.seen[transfer]
}
