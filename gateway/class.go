package gateway

import (
	"net/http"
	"strconv"
	"strings"
)

// class is the result of a forward.
type class string

const (
	classNotSent     class = "not_sent"     // the service has not received the request, and never will
	classRefused     class = "refused"      // the service has answered that it does not execute the request, now or for this caller
	classCompleted   class = "completed"    // the complete answer has arrived
	classUnknownBody class = "unknown_body" // an answer has arrived, and nothing shows whether its body is complete
	classUnknown     class = "unknown"      // the request may have taken effect
)

// classOf returns the class of a completely received answer with a status.
func classOf(status int, h http.Header) class {
	switch {
	// The service itself says that it has not executed the request.
	case status >= 400 && h.Get(OutcomeHeader) == OutcomeNotExecuted:
		return classRefused
	case status < 200 || status > 999:
		return classUnknown
	}
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusClosed:
		return classUnknown // a proxy may have sent this answer, after it has lost the answer of the service
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return classRefused
	}
	return classCompleted
}

const statusClosed = 499 // nginx sends it if its client has disconnected

// isGRPC reports whether the gRPC status is in headers or trailers. gRPC-Web has it in the body, so gRPC-Web
// does not count.
func isGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(h.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// statusOfGRPC returns the HTTP status that says the same about the execution as the gRPC status of an answer.
// An answer with HTTP status 200 and without a gRPC status was cut off.
func statusOfGRPC(header, trailer http.Header) int {
	said := trailer.Get("Grpc-Status")
	if said == "" {
		said = header.Get("Grpc-Status")
	}
	code, err := strconv.Atoi(said)
	if err != nil {
		return http.StatusBadGateway
	}
	switch code {
	case 0:
		return http.StatusOK
	case 1: // CANCELLED
		return statusClosed
	case 4: // DEADLINE_EXCEEDED
		return http.StatusGatewayTimeout
	case 14: // UNAVAILABLE
		return http.StatusServiceUnavailable
	case 8: // RESOURCE_EXHAUSTED: a client library also reports it for an answer that is too large, after the work was done
		return http.StatusBadGateway
	case 16: // UNAUTHENTICATED
		return http.StatusUnauthorized
	case 7: // PERMISSION_DENIED
		return http.StatusForbidden
	case 10: // ABORTED
		return http.StatusConflict
	case 2, 13, 15: // UNKNOWN, INTERNAL, DATA_LOSS
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
