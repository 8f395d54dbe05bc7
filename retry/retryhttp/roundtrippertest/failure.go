package roundtrippertest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
)

// failureChecks are about failures of connections and servers that a repetition may or
// may not cure.
var failureChecks = []Check{
	{"TooEarly", "408, 425, 429, 500, 502 and 504 of a GET are repeated", func(l *lab) error {
		for _, status := range []int{408, 425, 429, 500, 502, 504} {
			s := l.serve(failThen(status, 2))
			a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
			if err := errors.Join(wantStatus(a, err, 200), s.wantSends(2)); err != nil {
				return fmt.Errorf("%d: %w", status, err)
			}
		}
		return nil
	}},
	{"NotImplemented", "501 is final", func(l *lab) error {
		s := l.serve(failThen(501, always))
		a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
		return errors.Join(wantStatus(a, err, 501), s.wantSends(1))
	}},
	{"UntrustedCertificate", "after an untrusted certificate, the client does not try again", func(l *lab) error {
		var handshakes atomic.Int32
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			handshakes.Add(1)
			return nil, nil //nolint:nilnil // the same configuration
		}}
		s.StartTLS()
		defer s.Close()
		if _, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, ""); err == nil {
			return errors.New("it is trusted")
		}
		if n := handshakes.Load(); n != 1 {
			return fmt.Errorf("the client made %d TLS handshakes, not one", n)
		}
		return nil
	}},
	{"RefusedByProxy", "a proxy that refuses CONNECT is not asked again", (*lab).refusedByProxy},
	{"CancelledInAttempt", "a request that its caller has cancelled is not sent again", func(l *lab) error {
		ctx, cancel := context.WithCancel(l.ctx)
		defer cancel()
		s := l.serve(func(n int, _ http.ResponseWriter, r *http.Request) {
			if n == 1 {
				cancel()
				<-r.Context().Done()
			}
		})
		if _, err := l.do(ctx, l.client(), http.MethodGet, s.URL, ""); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the error is %v", err) //nolint:errorlint // it may be nil
		}
		return s.wantSends(1)
	}},
}

func (l *lab) refusedByProxy() error {
	s := l.serve(failThen(http.StatusProxyAuthRequired, always))
	proxy, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	c := l.client()
	c.base.Proxy = http.ProxyURL(proxy)
	if a, err := l.do(l.ctx, c, http.MethodGet, "https://service.invalid", ""); err == nil {
		return fmt.Errorf("the answer is %d", a.status)
	}
	return s.wantSends(1)
}
