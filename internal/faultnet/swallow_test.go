package faultnet

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// committer is a server that answers BEGIN at once and COMMIT when it is told to.
type committer struct {
	addr      string
	asked     chan struct{} // COMMIT has arrived
	proceed   chan struct{} // it may be answered
	committed chan error    // what became of the answer
}

func newCommitter(t *testing.T, answers ...string) *committer {
	t.Helper()
	c := &committer{asked: make(chan struct{}), proceed: make(chan struct{}), committed: make(chan error, 1)}
	c.addr = serve(t, func(conn net.Conn) {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if lines.Text() != "COMMIT" {
				_, _ = io.WriteString(conn, "ok\n")
				continue
			}
			close(c.asked)
			var err error
			for _, answer := range answers {
				<-c.proceed
				_, writeErr := io.WriteString(conn, answer)
				err = errors.Join(err, writeErr)
			}
			c.committed <- err
		}
	})
	return c
}

func TestSwallowAnswer(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]string{"until a pattern": "done\n", "until silence": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variants(t, func(t *testing.T, opts ...Option) {
				server := newCommitter(t, "done\n")
				proxy := listen(t, server.addr, opts...)
				trigger := proxy.Arm(SwallowAnswer("COMMIT", until))
				conn := dial(t, proxy)
				send(t, conn, "BEGIN\n")
				expect(t, conn, "ok\n")
				send(t, conn, "COM") // in pieces, if the network likes
				send(t, conn, "MIT\n")
				await(t, "COMMIT", server.asked)
				await(t, "the fault", trigger.Fired())
				// The client must not learn anything while the server works.
				_ = conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
				if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("the client got %d bytes, %v", n, err)
				}
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				server.proceed <- struct{}{}
				expectEnd(t, conn, "")
				if err := <-server.committed; err != nil {
					t.Error("the server could not answer:", err)
				}
				await(t, "the cut", trigger.Done())

				again := dial(t, proxy) // it happens once
				send(t, again, "BEGIN\n")
				expect(t, again, "ok\n")
			})
		})
	}
}

// TestSwallowAnswerOfAGivenUpRequest closes the client while the server works:
// the server must be able to finish, and to answer.
func TestSwallowAnswerOfAGivenUpRequest(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opts ...Option) {
		server := newCommitter(t, "one\n", "two\n", "done\n")
		proxy := listen(t, server.addr, opts...)
		trigger := proxy.Arm(SwallowAnswer("COMMIT", "done\n"))
		conn := dial(t, proxy)
		send(t, conn, "COMMIT\n")
		await(t, "COMMIT", server.asked)
		_ = conn.Close()
		for range 3 {
			select {
			case <-trigger.Done():
				t.Fatal("cut before the server had answered")
			case server.proceed <- struct{}{}:
			}
		}
		if err := <-server.committed; err != nil {
			t.Error("the server could not answer:", err)
		}
		await(t, "the cut", trigger.Done())
	})
}

// TestSwallowAnswerOfADyingServer ends the connection from the other side.
func TestSwallowAnswerOfADyingServer(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opts ...Option) {
		upstream := serve(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 100)) })
		proxy := listen(t, upstream, opts...)
		trigger := proxy.Arm(SwallowAnswer("COMMIT", "done"))
		conn := dial(t, proxy)
		send(t, conn, "COMMIT\n")
		expectEnd(t, conn, "")
		await(t, "the cut", trigger.Done())
	})
}
