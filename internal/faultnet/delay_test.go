package faultnet

import (
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// roundTrips returns how long n of them took, shortest first.
func roundTrips(tb testing.TB, conn net.Conn, n int) []time.Duration {
	tb.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		begin := time.Now()
		send(tb, conn, "ping")
		expect(tb, conn, "ping")
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times
}

// TestDelayIsPrecise demands that 0.5 ms each way is at least 1 ms, always, and not
// much more where the machine has the time: of the shortest. BenchmarkRoundTrip gives
// the exact numbers.
func TestDelayIsPrecise(t *testing.T) {
	const delay, most, tries = 500 * time.Microsecond, 1500 * time.Microsecond, 20
	upstream := serve(t, echo)
	for name, opts := range map[string][]Option{
		"sleep": {Delay(delay, delay)},
		"spin":  {Delay(delay, delay), Spin(50 * time.Microsecond)},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, listen(t, upstream, opts...))
			shortest := time.Duration(math.MaxInt64)
			for range tries {
				times := roundTrips(t, conn, 200)
				if shortest = min(shortest, times[0]); shortest < 2*delay {
					t.Fatalf("a round trip took only %v", shortest)
				}
				if shortest <= most {
					t.Logf("round trip: shortest %v, median %v", shortest, times[len(times)/2])
					return
				}
			}
			t.Errorf("no round trip took less than %v, want %v", shortest, most)
		})
	}
}

// TestDelayIsPipelined sends pieces faster than they arrive: the delay is paid
// once, not once per piece, however long it takes to send them.
func TestDelayIsPipelined(t *testing.T) {
	t.Parallel()
	const delay, pieces = 50 * time.Millisecond, 400
	conn := dial(t, listen(t, serve(t, echo), Delay(delay, delay)))
	begin, sent := time.Now(), make(chan time.Time, 1)
	go func() {
		defer func() { sent <- time.Now() }()
		for range pieces {
			_, _ = io.WriteString(conn, "piece")
			nap(50 * time.Microsecond) // so that pieces stay apart
		}
	}()
	expect(t, conn, strings.Repeat("piece", pieces))
	took, late := time.Since(begin), time.Since(<-sent)
	if took < 2*delay || late > pieces*delay/2 {
		t.Errorf("%d pieces with a delay of %v took %v, %v of it after the last was sent", pieces, 2*delay, took, late)
	}
}

func TestSetDelay(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	proxy := listen(t, serve(t, echo))
	fast := dial(t, proxy)
	roundTrips(t, fast, 1)
	proxy.SetDelay(delay, 0)
	slow := dial(t, proxy)
	if took := roundTrips(t, slow, 3)[0]; took < delay {
		t.Errorf("a new connection takes %v", took)
	}
	if took := roundTrips(t, fast, 20)[0]; took >= delay {
		t.Errorf("an old connection takes %v", took)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	upstream := serve(b, echo)
	run := func(name string, conn net.Conn) {
		b.Run(name, func(b *testing.B) {
			_ = conn.SetDeadline(time.Time{})
			for b.Loop() {
				send(b, conn, "ping")
				expect(b, conn, "ping")
			}
		})
	}
	direct, err := net.Dial("tcp", upstream)
	if err != nil {
		b.Fatal(err)
	}
	defer direct.Close()
	run("no proxy", direct)
	run("proxy", dial(b, listen(b, upstream)))
	for _, delay := range []time.Duration{100 * time.Microsecond, 500 * time.Microsecond, 5 * time.Millisecond} {
		run(fmt.Sprintf("%v each way", delay), dial(b, listen(b, upstream, Delay(delay, delay))))
		run(fmt.Sprintf("%v each way, spin", delay), dial(b, listen(b, upstream, Delay(delay, delay), Spin(60*time.Microsecond))))
	}
}
