package oncetest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
)

// ProviderConfig says how the service of another company behaves.
type ProviderConfig struct {
	// Dedupes says that a request whose Idempotency-Key came before has no effect, and gets the answer of that time.
	Dedupes bool

	// Answer returns the answer to the n-th effect. Default: 200 and {"id":n}.
	Answer func(n int, r *http.Request, body []byte) (status int, answer []byte)
}

// Provider is a service of another company in memory: a [http.RoundTripper] for [Process.Transport], and a [http.Handler]. It counts its effects,
// and complains if a key comes with two requests.
type Provider struct {
	tb  testing.TB
	cfg ProviderConfig

	mu       sync.Mutex
	effects  int
	lose     int
	answers  map[string]providerAnswer
	attached bool // to a test that asks for the complaints
	wrong    []string
}

type providerAnswer struct {
	request string
	status  int
	body    []byte
}

// NewProvider returns a provider. Outside of a [Process] it complains to tb.
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

// LoseAnswers has the next n requests take effect and get no answer.
func (p *Provider) LoseAnswers(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = n
}

// RoundTrip implements [http.RoundTripper].
func (p *Provider) RoundTrip(r *http.Request) (*http.Response, error) {
	status, answer, err := p.serve(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: fmt.Sprint(status, " ", http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)), Request: r,
	}, nil
}

// ServeHTTP implements [http.Handler].
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer, err := p.serve(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may be gone
}

func (p *Provider) serve(r *http.Request) (status int, answer []byte, err error) {
	var body []byte
	if r.Body != nil {
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	if err != nil {
		return 0, nil, err
	}
	key, request := r.Header.Get("Idempotency-Key"), r.Method+" "+r.URL.Path+" "+string(body)
	p.mu.Lock()
	defer p.mu.Unlock()
	a, known := p.answers[key]
	if known && key != "" && a.request != request {
		p.complain(fmt.Sprintf("the provider got the key %q for %q, and before for %q", key, request, a.request))
	}
	if !known || key == "" || !p.cfg.Dedupes {
		p.effects++
		status, answer = p.cfg.Answer(p.effects, r, body)
		a = providerAnswer{request, status, answer}
		p.answers[key] = a
	}
	if p.lose > 0 {
		p.lose--
		return 0, nil, fmt.Errorf("the provider: %w", io.ErrUnexpectedEOF)
	}
	return a.status, a.body, nil
}

func (p *Provider) complain(text string) {
	if p.attached {
		p.wrong = append(p.wrong, text)
		return
	}
	p.tb.Error(text)
}

// complaints returns what was wrong since it was last asked.
func (p *Provider) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.wrong
	p.wrong = nil
	return list
}
