package lease

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Headers of requests to a provider.
const (
	keyHeader       = "Idempotency-Key"
	operationHeader = "Operation"
	pidHeader       = "Pid"
	fateHeader      = "Fate" // what happens to the process that calls
)

// Fates of a process that calls. The provider, which knows where the request is, sends the signal.
const (
	killedBefore = "killed before the effect"
	killedAfter  = "killed after the effect"
	late         = "killed, and its request is held up until its key has taken effect or is voided"
)

// provider is a service in this process that others call. It notes each request and each effect.
type provider struct {
	URL string

	dedupes bool
	release chan struct{} // closed when late requests wait no more

	mu       sync.Mutex
	requests []request
	effects  map[string][]string // by key; each has its answer
	voided   map[string]bool     // keys with a tombstone
	changed  chan struct{}       // closed with the next request or effect
}

// request is one that has arrived.
type request struct{ operation, phase, key, body string }

func newProvider(tb testing.TB, dedupes bool) *provider {
	tb.Helper()
	p := &provider{dedupes: dedupes, release: make(chan struct{}), effects: map[string][]string{}, voided: map[string]bool{}, changed: make(chan struct{})}
	s := httptest.NewServer(p)
	p.URL = s.URL
	tb.Cleanup(func() {
		close(p.release)
		s.CloseClientConnections()
		s.Close()
	})
	return p
}

// ServeHTTP serves POST /call/<phase>, and POST /void: it puts a tombstone under a key, unless the key has taken effect.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process that calls has died while it sent
	}
	key := r.Header.Get(keyHeader)
	if r.URL.Path == "/void" {
		p.void(w, key)
		return
	}
	p.arrived(request{r.Header.Get(operationHeader), r.URL.Path[len("/call/"):], key, string(body)})
	fate := r.Header.Get(fateHeader)
	if fate == killedBefore || fate == late {
		kill(r)
	}
	if fate == late {
		p.waitFor(func() bool { return len(p.effects[key]) > 0 || p.voided[key] })
	}
	answer, refused := p.act(key)
	if fate == killedAfter {
		kill(r)
	}
	if refused {
		w.WriteHeader(http.StatusGone)
		return
	}
	_, _ = io.WriteString(w, answer)
}

func kill(r *http.Request) {
	if pid, err := strconv.Atoi(r.Header.Get(pidHeader)); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (p *provider) arrived(r request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, r)
	p.change()
}

// change tells what waits. p.mu is locked.
func (p *provider) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// waitFor waits for a condition that requests and effects change. is is called with p.mu locked.
func (p *provider) waitFor(is func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !is() {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
			p.mu.Lock()
		case <-p.release:
			p.mu.Lock()
			return
		}
	}
}

// act is where a request takes effect.
func (p *provider) act(key string) (answer string, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.voided[key] {
		return "", true
	}
	if known := p.effects[key]; len(known) > 0 && p.dedupes {
		return known[0], false
	}
	answer = fmt.Sprintf("effect %d of %s", len(p.effects[key])+1, key)
	p.effects[key] = append(p.effects[key], answer)
	p.change()
	return answer, false
}

func (p *provider) void(w http.ResponseWriter, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.effects[key]; len(known) > 0 {
		_, _ = io.WriteString(w, known[0])
		return
	}
	p.voided[key] = true
	p.change()
	w.WriteHeader(http.StatusGone)
}

// of returns the requests of an operation, and what took effect for each key of a phase.
func (p *provider) of(operation, phase string) (requests []request, effects map[string][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	effects = map[string][]string{}
	for _, r := range p.requests {
		if r.operation == operation && r.phase == phase {
			requests = append(requests, r)
			effects[r.key] = slices.Clone(p.effects[r.key])
		}
	}
	return requests, effects
}
