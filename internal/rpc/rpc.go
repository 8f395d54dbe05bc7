// Package rpc is shared by the adapters of gRPC and Connect. It decides which calls are operations, how their answers are
// stored, and how a client treats errors. It imports neither library.
package rpc

import "strings"

// These are names of metadata: the names of package wire in lower case. If net/http sees the header Idempotency-Key in its own
// spelling, it may send the request again by itself.
const (
	KeyHeader       = "idempotency-key"
	AttemptHeader   = "once-attempt"
	PreviousHeader  = "grpc-previous-rpc-attempts" // set by a client whose service config has a retryPolicy
	FirstSentHeader = "once-first-sent"
	UndoesHeader    = "once-undoes"
	TraceHeader     = "traceparent"
	StatusHeader    = "idempotency-status"
	ReplayedHeader  = "idempotent-replayed"
	RetentionHeader = "idempotency-retention"
	PushbackHeader  = "grpc-retry-pushback-ms"
)

// Domain is the domain of the error details of this library.
const Domain = "oncelib.dev"

// Code is a status code of gRPC, which Connect shares.
type Code uint32

// These are the codes with a meaning in this package.
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

// Final reports whether an answer with code c is a definitive refusal, which is stored and replayed. Other codes mean that the
// call may succeed later or for another caller, or they say nothing about the call.
func (c Code) Final() bool {
	switch c {
	case InvalidArgument, NotFound, AlreadyExists, FailedPrecondition, OutOfRange:
		return true
	}
	return false
}

// Own reports whether a method, such as "/grpc.health.v1.Health/Check", belongs to a service of gRPC itself. Such methods change
// nothing.
func Own(method string) bool { return strings.HasPrefix(method, "/grpc.") }
