package webhook

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/oncelib/once/store"
)

// problem is an answer of [Hooks.Handler] in the form of RFC 9457.
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Title  string `json:"title"`
}

func writeProblem(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	p.Title = http.StatusText(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // texts and a number; a client that is gone reads nothing
}

// malformedError says that a request cannot be read. Its text is meant for the tenant.
type malformedError struct{ err error }

func (e *malformedError) Error() string {
	return "webhook: the body of the request is not valid: " + e.err.Error()
}

var (
	errTwice   = errors.New("the body has more than one JSON value. Try: one JSON object")
	errNoSince = errors.New(`the field "since" is missing. Try: a time, such as "2026-11-26T09:00:00Z"`)
)

// problemOf returns the problem for an error, with only the text that a tenant may see.
func problemOf(err error) problem {
	var malformed *malformedError
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &malformed) && errors.As(malformed.err, &long):
		return problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: "The body is too large."}
	case errors.As(err, &malformed):
		return problem{Status: http.StatusBadRequest, Code: "malformed", Detail: err.Error()}
	case errors.Is(err, ErrNotFound):
		return problem{Status: http.StatusNotFound, Code: "not_found", Detail: "There is no such endpoint or event."}
	case errors.Is(err, ErrURL): // without the text of the error, which may contain addresses from the resolver
		return problem{Status: http.StatusUnprocessableEntity, Code: "url_not_allowed", Detail: "The URL is not allowed, or its host name cannot be resolved. The URL must begin with https, and its host must have a public address."}
	case errors.Is(err, ErrInvalid):
		return problem{Status: http.StatusUnprocessableEntity, Code: "invalid", Detail: err.Error()}
	case errors.Is(err, ErrTooMany):
		return problem{Status: http.StatusConflict, Code: "too_many_endpoints", Detail: "The maximum number of endpoints is reached. Delete an endpoint before you create another one."}
	case errors.Is(err, ErrChanged):
		return problem{Status: http.StatusConflict, Code: "changed", Detail: "Another request has changed the endpoint. Read the endpoint, and change it again."}
	case errors.Is(err, ErrRotating):
		return problem{Status: http.StatusConflict, Code: "rotating", Detail: "The previous secret is valid until old_secret_until. Rotate the secret after that time, or with overlap_seconds 0."}
	case errors.Is(err, ErrDisabled):
		return problem{Status: http.StatusConflict, Code: "disabled", Detail: "The endpoint is disabled. Enable it."}
	}
	// After these errors the change may have been made.
	switch store.KindOf(err) {
	case store.KindUnavailable, store.KindLost, store.KindBusy, store.KindRetry:
		return problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Detail: "The database is not available now, and the change was perhaps made. Read the endpoint, and try again if nothing was changed."}
	}
	return problem{Status: http.StatusInternalServerError, Code: "failed", Detail: "The request failed because of an error in the server."}
}
