package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/oncehttp"
)

// passing sends requests without a key to the service.
type passing struct{ g *Gateway }

var errNotSent = errors.New("gateway: the service has not received the request")

// RoundTrip implements [http.RoundTripper]. If the service has not received the request, and never will, the error is errNotSent.
func (p passing) RoundTrip(r *http.Request) (*http.Response, error) {
	var s sending
	resp, err := p.g.client.RoundTrip(r.WithContext(s.trace(r.Context(), p.g.cfg.Upstream.Scheme == schemeH2C)))
	if err != nil && s.isNotSent(err) {
		err = fmt.Errorf("%w: %w", errNotSent, err)
	}
	return resp, err //nolint:wrapcheck // the error is of net/http
}

// codeLost is the code of a problem about a request without a key whose answer was lost.
const codeLost oncehttp.ProblemCode = "DEPENDENCY.upstream_answer_lost"

// notPassed answers a request without a key that the service has not answered. A client must not send the request again if the service may have
// executed it, because nothing would recognise the second request.
func notPassed(w http.ResponseWriter, r *http.Request, err error) {
	if isGRPC(r.Header) {
		w = &client{ResponseWriter: w, grpc: true}
	}
	switch {
	case errors.Is(err, errNotSent):
		writeProblem(w, upstreamProblem("Nothing was applied: the service has not received the request. Send the same request again."))
	case isRepeatable(r.Method):
		writeProblem(w, upstreamProblem("The service did not answer. It is not known whether this request has taken effect."))
	default:
		writeProblem(w, oncehttp.Problem{
			Type: wire.ProblemType(string(codeLost)), Code: codeLost, Status: http.StatusBadGateway, Title: "Answer lost",
			Detail: "The service did not answer. The service may have executed the request, and the gateway uses no idempotency key for this request. Check its effects before you send it again.",
		})
	}
}

// isRepeatable reports whether a second request with the method has no further effect, by the rules of HTTP.
func isRepeatable(method string) bool {
	return isSafe(method) || method == http.MethodPut || method == http.MethodDelete
}
