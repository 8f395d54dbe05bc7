package lease

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestStoppedInARenewal: a process is stopped between the update that renews its leases and the COMMIT. The server ends that transaction, and
// the operation is taken over. (With pgx both travel together; on SQLite nothing ends the transaction of a process that is stopped.)
func TestStoppedInARenewal(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(name, func(t *testing.T) {
			if name != harness.Postgres {
				testenv.Sample(t, 4)
			}
			t.Parallel()
			o := newDatabase(t, name)
			other := o.mustOpen(t)
			defer other.close()
			gate := &commitGate{arrived: make(chan struct{}), open: make(chan struct{})}
			o.dial = gate.dial
			stopped := o.mustOpen(t)
			defer stopped.close()
			running := store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("of the first one")}
			_, err := other.ops.Swap(t.Context(), store.Change{ID: idOf("k"), Next: running, Lease: ttl})
			must(t, err)
			renewer, _ := store.As[store.Renewer](stopped.ops)
			ended := make(chan error, 1)
			gate.arm()
			go func() {
				_, err := renewer.Renew(context.WithoutCancel(t.Context()), []store.Hold{{ID: idOf("k"), Fence: 1, Nonce: running.Nonce}}, ttl)
				ended <- err
			}()
			select {
			case <-gate.arrived:
			case err := <-ended:
				t.Fatalf("the renewal ends: %v", err)
			}
			running.Fence, running.Nonce = 2, []byte("of the second one")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			harness.Until(t, func() error {
				_, err := other.ops.Swap(ctx, store.Change{ID: idOf("k"), Expect: store.Expect{Fence: 1, LeaseExpired: true}, Next: running, Lease: time.Hour})
				return err
			})
			close(gate.open)
			if err := <-ended; err == nil {
				t.Error("what was taken over is renewed")
			}
		})
	}
}

// commitGate holds up the first COMMIT after it was armed, as it is sent.
type commitGate struct {
	mu      sync.Mutex
	armed   bool
	arrived chan struct{} // closed when it is held up
	open    chan struct{} // closed when it goes on
}

func (g *commitGate) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = true
}

// strikes reports whether b is what is held up.
func (g *commitGate) strikes(b []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.armed || !bytes.Contains(bytes.ToUpper(b), []byte("COMMIT")) || bytes.Contains(bytes.ToUpper(b), []byte("READ COMMITTED")) {
		return false
	}
	g.armed = false
	return true
}

func (g *commitGate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	return gatedConn{conn, g}, err
}

type gatedConn struct {
	net.Conn

	gate *commitGate
}

func (c gatedConn) Write(b []byte) (int, error) {
	if c.gate.strikes(b) {
		close(c.gate.arrived)
		<-c.gate.open
	}
	return c.Conn.Write(b)
}
