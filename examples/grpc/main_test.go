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

	"github.com/oncelib/once"
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

func TestOneRefund(t *testing.T) {
	ctx, file := context.Background(), "file:"+filepath.Join(t.TempDir(), "refunds.db")
	server, err := newServer(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
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
	for range 8 {
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
