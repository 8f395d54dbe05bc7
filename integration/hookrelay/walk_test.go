package hookrelay

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// stopped begins the line that a process prints before it stops: it names the requests that are on their way, endpoint/event.
const stopped = "stopped"

// walk ends this process, or stops it until it is woken, at the N-th point of its relay. It is a webhook.Tracer to know what is on its way.
type walk struct {
	plan   plan
	relay  *webhook.Relay
	passed atomic.Int64
	mu     sync.Mutex
	open   []string // requests on their way
}

// run runs a relay.
func (w *walk) run(ctx context.Context, r *webhook.Relay) error {
	w.relay = r
	if w.plan.Sockets {
		w.dials()
	}
	return r.Run(ctx)
}

// WebhookSpan implements webhook.Tracer.
func (w *walk) WebhookSpan(ctx context.Context, s webhook.Span) (context.Context, func(int, string)) {
	request := s.Endpoint + "/" + s.EventID
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, request)
	return ctx, func(int, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.open, request)
		w.open = slices.Delete(w.open, i, i+1)
	}
}

func (w *walk) point() {
	switch {
	case w.passed.Add(1) != w.plan.At:
	case w.plan.Stop:
		w.stop()
	default:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// stop stops this process at a moment at which each request that the relay has begun is known. None begins meanwhile: the board is locked.
func (w *walk) stop() {
	board := inside(w.relay, "board").Interface()
	lock := inside(board, "mu").Addr().Interface().(*sync.Mutex)
	for {
		lock.Lock()
		w.mu.Lock()
		if n := inside(board, "fast").Int() + inside(board, "slow").Int(); n == int64(len(w.open)) {
			break
		}
		w.mu.Unlock()
		lock.Unlock()
		runtime.Gosched()
	}
	fmt.Println(stopped, strings.Join(w.open, " "))
	if err := harness.Stop(); err != nil {
		panic(err)
	}
	w.mu.Unlock()
	lock.Unlock()
}

// watch has the relay pass a point before and after each statement with which it takes parts, reads an event to begin its deliveries, and writes down what has become of them
// and how their endpoint is doing, and when a claim has read a row. Each statement is one write to a socket. What it asks again and again is no point.
func (w *walk) watch() *watch {
	if w.plan.At == 0 || w.plan.Sockets {
		return nil
	}
	return &watch{
		before: func(st store.Statement) error {
			if isStep(st) {
				w.point()
			}
			return nil
		},
		row: func(st store.Statement) {
			if isClaim(st) {
				w.point()
			}
		},
		after: func(st store.Statement, err error) error {
			if isStep(st) {
				w.point()
			}
			return err
		},
	}
}

// dials has the relay pass a point before and after it connects to an endpoint, after each write to that socket, and after each read of something.
func (w *walk) dials() {
	client := inside(w.relay, "client").Interface().(*http.Client)
	transport := inside(client.Transport, "transport").Interface().(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.point()
		c, err := dial(ctx, network, address)
		w.point()
		return &socket{c, w.point}, err
	}
}

type socket struct {
	net.Conn

	point func()
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.point()
	return n, err
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.point()
	}
	return n, err
}

// inside is a field of what p points to, also one that is not exported: users have no way to the sockets of a relay, and need none.
func inside(p any, name string) reflect.Value {
	f := reflect.ValueOf(p).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}
