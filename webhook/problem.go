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
}

func writeProblem(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(struct {
		problem

		Title string `json:"title"`
	}{p, http.StatusText(p.Status)}) //nolint:errchkjson // texts and a number; a client that is gone reads nothing
}

// malformedError is a request that cannot be read. Its text is for the tenant.
type malformedError struct{ err error }

func (e *malformedError) Error() string {
	return "webhook: the request cannot be read: " + e.err.Error()
}

var (
	errTwice   = errors.New("there is more than one JSON value")
	errNoSince = errors.New(`there is no "since". Try: a time, such as "2026-11-26T09:00:00Z"`)
)

// problemOf says what a tenant may know of an error.
func problemOf(err error) problem {
	var malformed *malformedError
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &malformed) && errors.As(malformed.err, &long):
		return problem{http.StatusRequestEntityTooLarge, "too_large", "The body is too large."}
	case errors.As(err, &malformed):
		return problem{http.StatusBadRequest, "malformed", err.Error()}
	case errors.Is(err, ErrNotFound):
		return problem{http.StatusNotFound, "not_found", "There is no such endpoint or event."}
	case errors.Is(err, ErrURL): // the text shows what the resolver has answered
		return problem{http.StatusUnprocessableEntity, "url_not_allowed", "The URL is not allowed, or its name cannot be resolved. It begins with https, and its host has a public address."}
	case errors.Is(err, ErrInvalid):
		return problem{http.StatusUnprocessableEntity, "invalid", err.Error()}
	case errors.Is(err, ErrTooMany):
		return problem{http.StatusConflict, "too_many_endpoints", "There are as many endpoints as there can be. Delete one."}
	case errors.Is(err, ErrChanged):
		return problem{http.StatusConflict, "changed", "The endpoint was changed meanwhile. Read it, and change it again."}
	case errors.Is(err, ErrRotating):
		return problem{http.StatusConflict, "rotating", "The secret before this one still signs, until old_secret_until. Rotate later, or with overlap_seconds 0."}
	case errors.Is(err, ErrDisabled):
		return problem{http.StatusConflict, "disabled", "The endpoint is disabled. Enable it."}
	}
	switch store.KindOf(err) {
	case store.KindUnavailable, store.KindLost, store.KindBusy, store.KindRetry:
		return problem{http.StatusServiceUnavailable, "unavailable", "It is not known whether this was done. Read it, and try again."}
	}
	return problem{http.StatusInternalServerError, "failed", "It failed."}
}
