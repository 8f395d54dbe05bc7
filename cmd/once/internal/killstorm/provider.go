package killstorm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"
)

// Provider is an external service that charges cards. It is slow, and drops answers. It writes its charges to a file, so that it can be killed.
type Provider struct {
	dedupes bool // it makes at most one charge for each key, and accepts tombstones

	mu      sync.Mutex
	file    *os.File
	charges map[string]string // by key
	void    map[string]bool   // keys with a tombstone: no charge is made for them
	next    int
	tries   map[string]int // requests by order, since the start
}

// deed is a line of the file of a provider.
type deed struct {
	What   string `json:"what"` // request, charge, deduped, void or refused
	Charge string `json:"charge,omitempty"`
	Order  string `json:"order,omitempty"`
	Key    string `json:"key,omitempty"`
}

// OpenProvider opens the provider whose charges are in a file. Without dedupes it ignores keys.
func OpenProvider(path string, dedupes bool) (*Provider, error) {
	done, err := readDeeds(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Provider{dedupes: dedupes, file: f, charges: map[string]string{}, void: map[string]bool{}, tries: map[string]int{}}
	for _, d := range done {
		switch d.What {
		case "charge":
			p.charges[d.Key] = d.Charge
			p.next++
		case "void":
			p.void[d.Key] = true
		}
	}
	return p, nil
}

// readDeeds reads the file of a provider. Its processes must have ended. The last line may be incomplete.
func readDeeds(path string) (list []deed, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var d deed
		if json.Unmarshal(lines.Bytes(), &d) == nil {
			list = append(list, d)
		}
	}
	return list, lines.Err()
}

// note writes a deed to the file before it happens, so that it is kept after a kill.
func (p *Provider) note(d deed) {
	b, err := json.Marshal(d)
	if err == nil {
		_, err = p.file.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err) // the process ends, because it must not answer for a deed that is not in the file
	}
}

const keyHeader = "Idempotency-Key"

// chargeRequest is the request of the service to the provider.
type chargeRequest struct {
	Order  string `json:"order"`
	Number int    `json:"number"` // of the order; it chooses the fault
}

// Faults of the first request of an order, by its number.
const (
	mishaps      = 6
	dropsAfter   = 0 // the charge is made, and its answer and the answer to the next question about it are lost
	dropsBefore  = 1 // the charge is not made, and neither the request nor the next question about it is answered
	comesLate    = 2 // the request arrives after its client has stopped waiting
	lateness     = 2500 * time.Millisecond
	chargeTime   = 15 * time.Millisecond
	callPatience = 2 * time.Second // how long the service waits for an answer
)

// ServeHTTP implements [http.Handler].
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		return
	}
	var req chargeRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d := deed{Order: req.Order, Key: r.Header.Get(keyHeader)}
	switch r.URL.Path {
	case "/charges":
		p.charge(w, r, d, req.Number%mishaps)
	case "/void":
		p.settle(w, d, req.Number%mishaps)
	default:
		http.NotFound(w, r)
	}
}

// charge makes a charge, unless a fault prevents it.
func (p *Provider) charge(w http.ResponseWriter, r *http.Request, d deed, mishap int) {
	first := p.arrived(d, "charge")
	if first && mishap == dropsBefore {
		panic(http.ErrAbortHandler)
	}
	takes := chargeTime
	if first && mishap == comesLate {
		takes = lateness
	}
	if err := sleep(r.Context(), takes); err != nil && takes == chargeTime {
		return
	} else if err != nil { // the request still arrives although its client has stopped waiting, as on a slow network
		_ = sleep(context.WithoutCancel(r.Context()), lateness-callPatience)
	}
	id, err := p.book(d)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	case first && mishap == dropsAfter:
		panic(http.ErrAbortHandler)
	default:
		writeCharge(w, http.StatusOK, id)
	}
}

// arrived counts a request, and reports whether it is the first of its kind for the order.
func (p *Provider) arrived(d deed, kind string) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == "charge" {
		p.note(deed{What: "request", Order: d.Order, Key: d.Key})
	}
	p.tries[kind+d.Order]++
	return p.tries[kind+d.Order] == 1
}

var errVoid = errors.New("this key was voided")

func (p *Provider) book(d deed) (id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dedupes {
		if p.void[d.Key] {
			d.What = "refused"
			p.note(d)
			return "", errVoid
		}
		if id, known := p.charges[d.Key]; known {
			d.What = "deduped"
			p.note(d)
			return id, nil
		}
	}
	p.next++
	d.What, d.Charge = "charge", fmt.Sprintf("ch_%d", p.next)
	p.note(d)
	p.charges[d.Key] = d.Charge
	return d.Charge, nil
}

// settle answers with the outcome of a charge's key. If no charge exists, it writes a tombstone, so that no charge can be made later.
func (p *Provider) settle(w http.ResponseWriter, d deed, mishap int) {
	if !p.dedupes {
		http.Error(w, "this provider ignores keys", http.StatusNotFound)
		return
	}
	if p.arrived(d, "void") && (mishap == dropsAfter || mishap == dropsBefore) {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id, charged := p.charges[d.Key]
	if !charged && !p.void[d.Key] {
		p.void[d.Key] = true
		d.What = "void"
		p.note(d)
	}
	writeCharge(w, http.StatusOK, id)
}

// chargeAnswer is an answer of the provider. Its charge is "" if the key has a tombstone.
type chargeAnswer struct {
	Charge string `json:"charge"`
}

func writeCharge(w http.ResponseWriter, status int, id string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(chargeAnswer{id}) //nolint:errchkjson // an error means that the client has disconnected
}
