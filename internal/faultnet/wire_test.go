package faultnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// victimEnv turns the test binary into a process that kills itself at the byte
// that the variable names.
const victimEnv = "ONCE_FAULTNET_VICTIM"

func TestMain(m *testing.M) {
	if point := os.Getenv(victimEnv); point != "" {
		beVictim(point)
	}
	testenv.Main(m)
}

const victimSays = "some words that are never finished"

func beVictim(at string) {
	addr, n, _ := strings.Cut(at, " ")
	var wire Wire
	var number int64
	if _, err := fmt.Sscan(n, &number); err != nil {
		os.Exit(2)
	}
	wire.BeforeByte(number, KillProcess)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(2)
	}
	wrapped := wire.Wrap(conn)
	_, _ = io.WriteString(wrapped, victimSays[:10])
	_, _ = io.WriteString(wrapped, victimSays[10:])
	os.Exit(0) // it survived
}

// TestKillProcessBeforeEveryByte is the kill loop in small: for N = 1, 2, ... the
// server gets N - 1 bytes, until a run survives.
func TestKillProcessBeforeEveryByte(t *testing.T) {
	t.Parallel()
	upstream, got := record(t)
	for n := 1; ; n++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", victimEnv, upstream, n))
		err := cmd.Run()
		text := <-got
		if err == nil {
			if n != len(victimSays)+1 || text != victimSays {
				t.Errorf("run %d survived, and the server got %q", n, text)
			}
			return
		}
		if runtime.GOOS != "windows" && err.Error() != "signal: killed" {
			t.Fatalf("run %d ended with %v", n, err)
		}
		if text != victimSays[:n-1] {
			t.Fatalf("killed before byte %d: the server got %q", n, text)
		}
	}
}

func wired(t *testing.T, wire *Wire, handle func(net.Conn)) *Conn {
	t.Helper()
	conn, err := wire.DialContext(t.Context(), "tcp", serve(t, handle))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*Conn)
}

func TestWireCounts(t *testing.T) {
	t.Parallel()
	var wire Wire
	conn, other := wired(t, &wire, echo), wired(t, &wire, echo)
	send(t, conn, "one")
	send(t, conn, "two")
	expect(t, conn, "one")
	expect(t, conn, "two") // a second read is not a second round trip
	send(t, other, "three")
	expect(t, other, "three")
	counts := wire.Counts()
	if counts.Conns != 2 || counts.Writes != 3 || counts.RoundTrips < 2 || counts.RoundTrips > 3 ||
		counts.Reads < 3 || counts.Sent != 11 || counts.Received != 11 {
		t.Errorf("counts = %+v", counts)
	}
	wire.Reset()
	if counts := wire.Counts(); counts != (Counts{}) {
		t.Errorf("after Reset: %+v", counts)
	}
}

// TestWireCountsRoundTrips lets a server answer each request with one write per
// byte: however many reads that takes, a request is one round trip.
func TestWireCountsRoundTrips(t *testing.T) {
	t.Parallel()
	var wire Wire
	conn := wired(t, &wire, func(conn net.Conn) {
		request := make([]byte, 4)
		for {
			if _, err := io.ReadFull(conn, request); err != nil {
				return
			}
			for i := range request {
				_, _ = conn.Write(request[i : i+1])
			}
		}
	})
	const requests = 50
	for range requests {
		send(t, conn, "ping")
		expect(t, conn, "ping")
	}
	if counts := wire.Counts(); counts.RoundTrips != requests || counts.Writes != requests {
		t.Errorf("counts = %+v", counts)
	}
}

func TestWireUnderHTTP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var wire Wire
	client := http.Client{Transport: &http.Transport{DialContext: wire.DialContext}}
	defer client.CloseIdleConnections()
	for range 3 {
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if counts := wire.Counts(); counts.RoundTrips != 3 || counts.Writes != 3 { // on one connection, or on more on a slow machine
		t.Errorf("three requests: %+v", counts)
	}
}

func TestHooksRunInOrder(t *testing.T) {
	t.Parallel()
	var wire Wire
	conn := wired(t, &wire, echo)
	var order []string
	note := func(text string) func(*Conn) {
		return func(*Conn) { order = append(order, fmt.Sprintf("%s sent=%d", text, wire.Counts().Sent)) }
	}
	wire.BeforeWrite(2, note("write 2"))
	wire.BeforeRead(1, note("read 1"))
	wire.BeforeByte(1, note("byte 1"))
	wire.BeforeByte(4, note("byte 4"))
	wire.BeforeWrite(9, note("never"))
	send(t, conn, "ab")
	expect(t, conn, "ab")
	send(t, conn, "cdef")
	expect(t, conn, "cdef")
	if got, want := strings.Join(order, ", "), "byte 1 sent=2, read 1 sent=2, write 2 sent=2, byte 4 sent=6"; got != want {
		t.Errorf("hooks ran as %s, want %s", got, want)
	}
}

func TestHookClosesTheConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		arm  func(*Wire)
		want string // what the server gets
	}{
		{"before write 2", func(w *Wire) { w.BeforeWrite(2, CloseConn) }, "first,"},
		{"before read 1", func(w *Wire) { w.BeforeRead(1, CloseConn) }, "first,second"},
		{"before byte 9", func(w *Wire) { w.BeforeByte(9, CloseConn) }, "first,se"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			upstream, got := record(t)
			var wire Wire
			c.arm(&wire)
			conn, err := wire.DialContext(t.Context(), "tcp", upstream)
			if err != nil {
				t.Fatal(err)
			}
			_, first := io.WriteString(conn, "first,")
			n, second := io.WriteString(conn, "second")
			_, third := conn.Read(make([]byte, 1))
			if err := errors.Join(first, second, third); !errors.Is(err, net.ErrClosed) {
				t.Errorf("err = %v, want net.ErrClosed", err)
			}
			if text := <-got; text != c.want || n != len(c.want)-len("first,") {
				t.Errorf("the server got %q, Write says %d", text, n)
			}
		})
	}
}

func TestWindowFindsAcrossPieces(t *testing.T) {
	t.Parallel()
	const stream, pattern = "xCOMCOMMIT;yCOMMIT", "COMMIT"
	want := strings.Index(stream, pattern) + len(pattern)
	for size := 1; size <= len(stream); size++ {
		w, at := &window{pattern: []byte(pattern)}, 0
		for piece := range chunks(stream, size) {
			end, found := w.find(piece)
			if found {
				if at+end != want {
					t.Errorf("pieces of %d: found at %d, want %d", size, at+end, want)
				}
				break
			}
			if at += len(piece); at >= want {
				t.Fatalf("pieces of %d: not found", size)
			}
		}
	}
}

func chunks(text string, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if !yield(bytes.Clone(rest[:n])) {
				return
			}
			rest = rest[n:]
		}
	}
}
