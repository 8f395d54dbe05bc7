// Package rpc is common to the adapters of gRPC and Connect: which calls are
// operations, how their answers are stored, and how a client treats their errors.
// It knows neither library.
package rpc

import "strings"

// Names of metadata: the names of package wire, in lower case. net/http takes an Idempotency-Key in
// its own spelling for the permission to send a request again by itself.
const (
	KeyHeader       = "idempotency-key"
	AttemptHeader   = "once-attempt"
	PreviousHeader  = "grpc-previous-rpc-attempts" // from a client whose service config has a retryPolicy
	FirstSentHeader = "once-first-sent"
	UndoesHeader    = "once-undoes"
	TraceHeader     = "traceparent"
	StatusHeader    = "idempotency-status"
	ReplayedHeader  = "idempotent-replayed"
	RetentionHeader = "idempotency-retention"
	PushbackHeader  = "grpc-retry-pushback-ms"
)

// Domain of the error details of this library.
const Domain = "oncelib.dev"

// Code is a status code of gRPC, which Connect shares.
type Code uint32

// The codes that mean something here.
const (
	Canceled           Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Internal           Code = 13
	Unavailable        Code = 14
	Unauthenticated    Code = 16
)

// Final reports whether an answer of a handler with code c is a definitive "no", which
// is stored and replayed. Others say "not now" or "not you", or nothing at all.
func (c Code) Final() bool {
	switch c {
	case InvalidArgument, NotFound, AlreadyExists, FailedPrecondition, OutOfRange:
		return true
	}
	return false
}

// Own reports whether a method, such as "/grpc.health.v1.Health/Check", is one of the
// services that come with gRPC: they change nothing.
func Own(method string) bool { return strings.HasPrefix(method, "/grpc.") }
