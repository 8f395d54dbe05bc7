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

// classOf returns the class of an answer with a status, whose body is whole.
func classOf(status int, h http.Header) class {
	switch {
	case status >= 400 && h.Get(OutcomeHeader) == OutcomeNotExecuted:
		return classRefused
	case status < 200 || status > 999:
		return classUnknown
	}
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusClosed:
		return classUnknown // sent by a proxy, which may have lost the service's answer
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return classRefused
	}
	return classCompleted
}

const statusClosed = 499 // sent by nginx if its client has disconnected

// isGRPC reports whether the status of gRPC is in headers or trailers. That of gRPC-Web is in the body.
func isGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(h.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// statusOfGRPC returns the status of HTTP that says the same about execution as the grpc-status of an answer. An
// answer of 200 without one was cut off.
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
	case 8: // RESOURCE_EXHAUSTED: also of an answer that is too large, when the work is done
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
