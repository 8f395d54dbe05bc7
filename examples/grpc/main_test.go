package main

import (
	"context"
	"database/sql"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
)

// cutting is a network whose first connection breaks when the server has answered a call.
type cutting struct {
	net.Conn

	cut *atomic.Bool
}

func (c cutting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 100 && c.cut.CompareAndSwap(false, true) { // more than the settings of HTTP/2: an answer
		c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func TestLostAnswers(t *testing.T) {
	ctx, file := context.Background(), "file:"+filepath.Join(t.TempDir(), "refunds.db")
	s, err := open(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(once.New(s, once.Config{}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	var cut atomic.Bool
	client, err := newClient(l.Addr().String(), grpc.WithContextDialer(func(_ context.Context, addr string) (net.Conn, error) {
		c, err := net.Dial("tcp", addr)
		return cutting{c, &cut}, err
	}))
	if err != nil {
		t.Fatal(err)
	}

	key := once.NewKey()
	var all sync.WaitGroup
	for range 3 { // more callers would use up the budget of retries while the first call is in flight
		all.Go(func() {
			if r, err := refund(ctx, client, key, "ch_1", 1000); err != nil || r.GetId() != 1 {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	all.Wait()
	if !cut.Load() {
		t.Error("no answer was lost")
	}
	if _, err := refund(ctx, client, key, "ch_1", 1001); once.CodeOf(err) != once.CodeMismatch {
		t.Error(err)
	}

	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(ctx, "select count(*) from refund").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d refunds, %v", n, err)
	}
}

// TestOneRefund: whatever fails, breaks or dies, a refund is made once.
func TestOneRefund(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "refunds.db")
	oncetest.Do(t, oncetest.Work{
		Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
			s, err := prepare(t.Context(), p.Open("sqlite", file+pragmas))
			if err != nil {
				t.Fatal(err)
			}
			server, l := newServer(once.New(oncetest.Store(p, s), once.Config{Observer: once.Discard})), bufconn.Listen(1<<16)
			go func() { _ = server.Serve(l) }()
			t.Cleanup(server.Stop)
			client, err := newClient("passthrough:server", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context, op once.Operation) (any, error) {
				return refund(ctx, client, op.Key, "ch_1", 1000)
			}
		},
		Skip: []oncetest.Fault{oncetest.FaultMismatch}, // all calls ask for the same
	})
}
