package oncetest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// ProviderConfig says how a [Provider] behaves.
type ProviderConfig struct {
	// Dedupes says that the provider recognises duplicates: if the provider knows the Idempotency-Key of a request, the provider returns the
	// earlier answer, and the request has no further effect.
	Dedupes bool

	// Answer returns the answer to a request that has an effect. The parameter n is the number of this effect; the first effect has
	// the number 1. Default: the status 200 and the body {"id":n}.
	Answer func(n int, r *http.Request, body []byte) (status int, answer []byte)
}

// Provider replaces the service of another company in a test. A Provider is an [http.RoundTripper] for [Process.Transport], and also an
// [http.Handler]. A Provider counts its effects, and reports an error if two different requests have the same key.
type Provider struct {
	tb  testing.TB
	cfg ProviderConfig

	mu       sync.Mutex
	effects  int
	lose     int
	answers  map[string]providerAnswer
	attached bool // a test reads the complaints; otherwise tb gets them
	wrong    []string
}

type providerAnswer struct {
	request string
	status  int
	body    []byte
}

// NewProvider returns a provider. If the provider is passed to [Process.Transport], the test that runs the process reports the errors of the
// provider. A provider that is not passed to Process.Transport reports its errors to tb.
func NewProvider(tb testing.TB, cfg ProviderConfig) *Provider {
	tb.Helper()
	if cfg.Answer == nil {
		cfg.Answer = func(n int, _ *http.Request, _ []byte) (int, []byte) {
			return http.StatusOK, fmt.Appendf(nil, `{"id":%d}`, n)
		}
	}
	return &Provider{tb: tb, cfg: cfg, answers: map[string]providerAnswer{}}
}

// Effects returns how many requests had an effect.
func (p *Provider) Effects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects
}

// LoseAnswers makes the provider drop the answers to the next n requests. A request whose answer is dropped still takes
// effect.
func (p *Provider) LoseAnswers(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = n
}

// RoundTrip implements [http.RoundTripper].
func (p *Provider) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if err := p.serve(w, r); err != nil {
		return nil, err
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// ServeHTTP implements [http.Handler]. If LoseAnswers says that the answer is dropped, ServeHTTP breaks the connection.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.serve(w, r) != nil {
		panic(http.ErrAbortHandler)
	}
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return err
		}
		_ = r.Body.Close()
	}
	key, request := r.Header.Get("Idempotency-Key"), r.Method+" "+r.URL.Path+" "+string(body)
	p.mu.Lock()
	defer p.mu.Unlock()
	a, known := p.answers[key]
	if known && key != "" && a.request != request {
		p.complain(fmt.Sprintf("the external provider received the key %q for %q, but before that it received this key for %q", key, request, a.request))
	}
	if !known || key == "" || !p.cfg.Dedupes {
		p.effects++
		a = providerAnswer{request: request}
		a.status, a.body = p.cfg.Answer(p.effects, r, body)
		p.answers[key] = a
	}
	if p.lose > 0 {
		p.lose--
		return fmt.Errorf("the provider: %w", io.ErrUnexpectedEOF)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // fails if the client is gone
	return nil
}

func (p *Provider) complain(text string) {
	if p.attached {
		p.wrong = append(p.wrong, text)
		return
	}
	p.tb.Error(text)
}

// complaints returns the complaints since its last call.
func (p *Provider) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.wrong
	p.wrong = nil
	return list
}
