package retryhttp_test

import (
	"net/http"
	"testing"

	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
)

func TestRoundTripper(t *testing.T) {
	roundtrippertest.Run(t, roundtrippertest.Candidate{
		New: func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base}
		},
		NewWithKeys: func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base, Keys: true}
		},
	})
}
