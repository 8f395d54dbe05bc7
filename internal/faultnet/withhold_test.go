package faultnet

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TestWithholdHidesAllAnswers: the server hears everything and the client nothing, on each connection that
// has sent the pattern, and on no other, until the client goes.
func TestWithholdHidesAllAnswers(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opts ...Option) {
		closed := make(chan struct{}, 2)
		addr := serve(t, func(conn net.Conn) {
			echo(conn)
			closed <- struct{}{}
		})
		proxy := listen(t, addr, opts...)
		trigger := proxy.Arm(Withhold("BEGIN"))
		other := dial(t, proxy)
		for i := range 2 {
			conn := dial(t, proxy)
			send(t, conn, "a\n")
			expect(t, conn, "a\n")
			send(t, conn, "BEG")
			send(t, conn, "IN\nb\n")
			for end := time.Now().Add(time.Minute); trigger.Count() <= int64(i) && time.Now().Before(end); {
				<-time.After(time.Millisecond)
			}
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
			if n, err := conn.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) && n > len("BEG") {
				t.Fatalf("the client got %d bytes, %v", n, err)
			}
			send(t, other, "c\n")
			expect(t, other, "c\n")
			_ = conn.Close()
			<-closed
			if trigger.Count() != int64(i+1) {
				t.Errorf("it has struck %d times", trigger.Count())
			}
		}
	})
}
