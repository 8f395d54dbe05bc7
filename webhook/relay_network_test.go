package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/webhook/ssrf"
)

// dialError is the error of a client that could not connect.
func dialError(why error) error {
	return &url.Error{Op: "Post", URL: "https://acme.example", Err: &net.OpError{Op: "dial", Net: "tcp", Err: why}}
}

// TestFaultOf: what only this process can lack is its own failure, what its network or that of the endpoint can lack is either, and all else is the endpoint's.
func TestFaultOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fault
	}{
		{dialError(os.NewSyscallError("socket", syscall.EMFILE)), faultOurs},
		{dialError(os.NewSyscallError("socket", syscall.ENFILE)), faultOurs},
		{dialError(os.NewSyscallError("connect", syscall.ENOBUFS)), faultOurs},
		{dialError(os.NewSyscallError("bind", syscall.EADDRINUSE)), faultOurs},
		{&net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED}, faultOurs},
		{dialError(os.NewSyscallError("connect", syscall.ENETUNREACH)), faultEither},
		{dialError(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)), faultEither},
		{dialError(&net.DNSError{Err: "i/o timeout", IsTimeout: true}), faultEither},
		{dialError(&net.DNSError{Err: "dial udp: socket: too many open files", IsTemporary: true}), faultEither},
		{dialError(&net.DNSError{Err: "no such host", IsNotFound: true}), faultTheirs},
		{dialError(&net.DNSError{Err: "server misbehaving", IsTemporary: true}), faultTheirs},
		{dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED)), faultTheirs},
		{dialError(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), faultTheirs},
		{dialError(os.NewSyscallError("connect", syscall.ETIMEDOUT)), faultTheirs},
		{fmt.Errorf("%w: it is private", ssrf.ErrRefused), faultTheirs},
		{errors.New("EOF"), faultTheirs},
	} {
		if got := faultOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// try makes one request of an endpoint that is due, and returns its delivery.
func (b *board) try(t *testing.T, id, event int64, fresh bool, err error) *delivery {
	t.Helper()
	for {
		asks, again := b.due()
		var d *delivery
		for _, a := range asks {
			if a.target.id == id {
				d = begin(t, b, a, event)[0]
			}
			b.claimed(a, time.Now())
		}
		if d == nil {
			<-time.After(time.Until(again)) // of a synctest bubble
			continue
		}
		d.answer = answer{Attempt: Attempt{At: time.Now()}, err: err, fresh: fresh}
		if err == nil {
			d.answer.Status = http.StatusOK
		}
		b.ended(d)
		b.settled(d)
		return d
	}
}

// TestOwnFailures: a request that this process could not make says nothing of the endpoint: it is made again after a bounded pause.
func TestOwnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(1, nil)
		for n := range int64(50) {
			began := time.Now()
			d := b.try(t, 1, 1, false, dialError(syscall.EMFILE))
			if waited := time.Since(began); !d.ours || d.state != nil || d.target.failures != 0 || waited > ownMost || n > 0 && waited < ownFirst {
				t.Fatalf("request %d, after %v: %+v", n, waited, d.target.health)
			}
		}
		if d := b.try(t, 1, 1, true, dialError(syscall.ECONNREFUSED)); d.ours || d.target.failures != 1 {
			t.Errorf("a failure of the endpoint counts as %d", d.target.failures)
		}
	})
}

// TestEitherFailure: where a route or a name is missing, it is the endpoint that fails only when another one was reached on a new connection meanwhile.
func TestEitherFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(2, nil)
		b.try(t, 2, 1, true, nil) // before
		missing := dialError(&net.DNSError{Err: "i/o timeout", IsTimeout: true})
		for event, fresh := range []bool{false, false, true} {
			if d := b.try(t, 1, 1, false, missing); !d.ours {
				t.Errorf("it counts although no other endpoint was reached, after %d", event)
			}
			b.try(t, 2, int64(event+2), fresh, nil)
		}
		for n := 1; n <= 3; n++ {
			if d := b.try(t, 1, 1, false, missing); d.ours || d.target.failures != n {
				t.Errorf("it counts as %d failures of %d although another endpoint was reached", d.target.failures, n)
			}
		}
	})
}
