package faultnet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// variants are the ways in which every fault is tested.
func variants(t *testing.T, test func(t *testing.T, opts ...Option)) {
	t.Helper()
	for name, opts := range map[string][]Option{
		"direct":  nil,
		"delayed": {Delay(2*time.Millisecond, 2*time.Millisecond)},
		"reset":   {Reset()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opts...)
		})
	}
}

// record is a server that says nothing and keeps what it gets: one entry per
// connection, once it has ended.
func record(t *testing.T) (string, <-chan string) {
	t.Helper()
	got := make(chan string, 100)
	return serve(t, func(conn net.Conn) {
		text, _ := io.ReadAll(conn)
		got <- string(text)
	}), got
}

func TestCutAfterClientBytes(t *testing.T) {
	t.Parallel()
	const message = "0123456789"
	upstream, got := record(t)
	proxy := listen(t, upstream)
	for n := range len(message) + 1 {
		trigger := proxy.Arm(CutAfterClientBytes(int64(n)))
		conn := dial(t, proxy)
		send(t, conn, message[:3]) // in two pieces, if the network likes
		send(t, conn, message[3:])
		expectEnd(t, conn, "")
		if text := <-got; text != message[:n] {
			t.Errorf("cut after %d bytes: the server got %q", n, text)
		}
		await(t, "the cut", trigger.Done())
		if trigger.Count() != 1 {
			t.Errorf("the fault struck %d times", trigger.Count())
		}
	}
	// One byte more than there is: the run survives, and the loop above has
	// visited every point.
	trigger := proxy.Arm(CutAfterClientBytes(int64(len(message) + 1)))
	conn := dial(t, proxy)
	send(t, conn, message)
	_ = conn.CloseWrite()
	expectEnd(t, conn, "")
	if text := <-got; text != message || trigger.Count() != 0 {
		t.Errorf("the run that survives: the server got %q, the fault struck %d times", text, trigger.Count())
	}
}

func TestCutAfterClientBytesCountsOverConnections(t *testing.T) {
	t.Parallel()
	proxy := listen(t, serve(t, echo))
	trigger := proxy.Arm(CutAfterClientBytes(5))
	first, second, third := dial(t, proxy), dial(t, proxy), dial(t, proxy)
	send(t, first, "abc")
	expect(t, first, "abc")
	send(t, second, "def") // its second byte is the fifth
	await(t, "the cut", trigger.Done())
	send(t, third, "not cut")
	expect(t, third, "not cut")
	send(t, first, "nor this")
	expect(t, first, "nor this")
}

func TestCutAfterServerBytes(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opts ...Option) {
		const answer = "0123456789"
		ended := make(chan struct{}, 100)
		upstream := serve(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_, _ = io.WriteString(conn, answer)
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		})
		proxy := listen(t, upstream, opts...)
		for n := range len(answer) + 1 {
			trigger := proxy.Arm(CutAfterServerBytes(int64(n)))
			conn := dial(t, proxy)
			send(t, conn, "?")
			expectEnd(t, conn, answer[:n])
			await(t, "the server's end", ended)
			await(t, "the cut", trigger.Done())
		}
	})
}

func TestCutBefore(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opts ...Option) {
		upstream, got := record(t)
		proxy := listen(t, upstream, opts...)
		proxy.Arm(CutBefore("COMMIT"))
		conn := dial(t, proxy)
		send(t, conn, "INSERT;COMMIT;")
		expectEnd(t, conn, "")
		if text := <-got; text != "INSERT;" {
			t.Errorf("the server got %q", text)
		}
	})
}

// TestCutBeforeInPieces sends the pattern so that it cannot arrive whole.
func TestCutBeforeInPieces(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	got := make(chan string, 1)
	upstream := serve(t, func(conn net.Conn) {
		input := bufio.NewReader(conn)
		begin, _ := input.ReadString('M')
		close(seen)
		rest, _ := io.ReadAll(input)
		got <- begin + string(rest)
	})
	proxy := listen(t, upstream)
	trigger := proxy.Arm(CutBefore("COMMIT"))
	conn := dial(t, proxy)
	send(t, conn, "INSERT;COM")
	await(t, "the first piece", seen)
	send(t, conn, "MIT;")
	await(t, "the cut", trigger.Fired())
	if text := <-got; text != "INSERT;COM" {
		t.Errorf("the server got %q", text)
	}
}

func TestDropEvery(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opts ...Option) {
		served := make(chan string, 100)
		upstream := serve(t, func(conn net.Conn) {
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				served <- lines.Text()
				_, _ = fmt.Fprintf(conn, "%s ok\n", lines.Text())
			}
		})
		proxy := listen(t, upstream, opts...)
		trigger := proxy.Arm(DropEvery(3, "ok\n"))
		conn := dial(t, proxy)
		for n := 1; n <= 9; n++ {
			send(t, conn, fmt.Sprintf("request %d\n", n))
			if n%3 != 0 {
				expect(t, conn, fmt.Sprintf("request %d ok\n", n))
			} else {
				expectEnd(t, conn, "")
				conn = dial(t, proxy)
			}
			if text := <-served; text != fmt.Sprintf("request %d", n) {
				t.Errorf("the server got %q", text)
			}
		}
		if trigger.Count() != 3 {
			t.Errorf("the fault struck %d times", trigger.Count())
		}
		proxy.Disarm()
		for range 5 {
			send(t, conn, "x\n")
			expect(t, conn, "x ok\n")
		}
	})
}
