package webhook

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"
)

// fault says which side has caused that a request got no answer.
type fault uint8

const (
	faultTheirs fault = iota
	faultOurs         // this process: no file descriptor, no memory, no port, or no proxy
	faultEither       // a route, an address or a name is missing, in the network of this process or in the network of the endpoint
)

const (
	ownFirst = time.Second // the first pause after a failure of this process; each further pause is twice as long
	ownMost  = 30 * time.Second
)

var (
	oursAlways = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRINUSE}
	oursMaybe  = []error{syscall.EADDRNOTAVAIL, syscall.ENETUNREACH, syscall.ENETDOWN}
)

// faultOf returns which side has caused the error of a request.
func faultOf(err error) fault {
	is := func(target error) bool { return errors.Is(err, target) }
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case slices.ContainsFunc(oursAlways, is), errors.As(err, &op) && op.Op == "proxyconnect":
		return faultOurs
	case slices.ContainsFunc(oursMaybe, is):
		return faultEither
	case errors.As(err, &dns) && !dns.IsNotFound && dns.Err != "server misbehaving": // SERVFAIL: the resolver of this process has answered, but the resolver of the endpoint has not
		return faultEither
	}
	return faultTheirs
}

// Reasons why a request failed because of this process or its network.
const (
	ownResources = "resources"
	ownProxy     = "proxy"
	ownRoute     = "route"
	ownName      = "name"
)

// ownReason returns the missing resource in one word.
func ownReason(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return ownProxy
	case errors.As(err, &dns):
		return ownName
	case faultOf(err) == faultEither:
		return ownRoute
	}
	return ownResources
}

// isOurs reports whether a request has failed because of this process or its network. If either network could
// be the cause, the endpoint is blamed as soon as another endpoint was reached on a new connection after the
// first such failure. The parameter reached is the start of the last request that has reached an endpoint in
// this way.
func (t *target) isOurs(a *answer, reached, now time.Time) bool {
	whose := faultTheirs
	if a.Status == 0 {
		whose = faultOf(a.err)
	}
	if whose == faultEither && t.doubt.IsZero() {
		t.doubt = now
	}
	switch {
	case whose == faultTheirs:
		t.doubt, t.own = time.Time{}, 0
		return false
	// The network of this process works, so the fault is on the side of the endpoint.
	case whose == faultEither && reached.After(t.doubt):
		return false
	}
	// Without a pause, a process without file descriptors would try again and again.
	if until := now.Add(min(ownFirst<<min(t.own, 10), ownMost)); until.After(t.until) {
		t.until = until
	}
	t.own++
	return true
}
