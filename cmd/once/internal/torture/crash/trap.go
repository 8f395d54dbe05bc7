package crash

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/oncelib/once/cmd/once/internal/check/probe"
)

// point is where the command is killed.
type point struct {
	kind kind
	n    int           // the packet, from 1
	at   time.Duration // after the request was sent
}

type kind int

const (
	never  kind = iota
	before      // the packet is passed on to the database
	after       // the database has answered, and the command has not got the answer yet
	clock
)

func (p point) String() string {
	switch p.kind {
	case before:
		return fmt.Sprintf("before packet %d", p.n)
	case after:
		return fmt.Sprintf("after the answer to packet %d", p.n)
	case clock:
		return "after " + p.at.Round(time.Microsecond).String()
	}
	return "without a kill"
}

// trap kills the command once, at a point.
type trap struct {
	mu       sync.Mutex
	point    point
	isArmed  bool
	isStruck bool
	kill     func()
	timer    *time.Timer
	packets  int // from the command, since it is armed
	arming   int // how often it was armed
	life     int // how often the command was killed
}

// link is a connection of the command to its database.
type link struct {
	life int
	owes int // the arming during which it has passed on a packet that is not answered yet; 0 if it waits for no answer
}

func (t *trap) arm(p point, kill func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arming++
	t.point, t.isArmed, t.isStruck, t.packets, t.kill = p, p.kind != never, false, 0, kill
	if p.kind == clock {
		arming := t.arming
		t.timer = time.AfterFunc(p.at, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.isArmed && t.arming == arming {
				t.strike()
			}
		})
	}
}

// disarm reports whether the trap has struck. If so, the command is gone.
func (t *trap) disarm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isArmed = false; t.timer != nil {
		t.timer.Stop()
	}
	return t.isStruck
}

// strike kills the command. It holds the lock meanwhile, so no packet is passed on until the command has ended.
func (t *trap) strike() {
	t.isArmed, t.isStruck = false, true
	t.life++
	t.kill()
}

func (t *trap) open() *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &link{life: t.life}
}

// passes reports whether a packet of a connection is passed on.
func (t *trap) passes(l *link, isToServer bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l.life != t.life: // the command of this connection was killed
		return false
	case !t.isArmed:
		return true
	case !isToServer:
		if l.owes != t.arming {
			return true
		}
	default:
		if t.packets++; t.packets != t.point.n {
			return true
		}
		if t.point.kind == after {
			l.owes = t.arming
			return true
		}
	}
	t.strike()
	return false
}

// Proxy passes on all bytes between the command and its database.
type Proxy struct{ Listen, Target string }

// serve listens until ctx ends. It returns a function that waits until no connection is left.
func (p Proxy) serve(ctx context.Context, t *trap) (wait func(), err error) {
	var group sync.WaitGroup
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Listen)
	if err != nil {
		return nil, fmt.Errorf("the proxy cannot listen: %w. Try: use another port before the = of --proxy", err)
	}
	context.AfterFunc(ctx, func() { l.Close() })
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			group.Go(func() { p.pass(ctx, t, conn) })
		}
	})
	return group.Wait, nil
}

func (p Proxy) pass(ctx context.Context, t *trap, command net.Conn) {
	defer command.Close()
	host, _, _ := net.SplitHostPort(p.Target) // it cannot fail, because the target was checked before
	server, err := probe.Dialer(host).DialContext(ctx, "tcp", p.Target)
	if err != nil {
		return // the command then says that its database cannot be reached
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { command.Close(); server.Close() })
	defer stop()
	link := t.open()
	var group sync.WaitGroup
	group.Go(func() { pump(server, command, func() bool { return t.passes(link, true) }) })
	pump(command, server, func() bool { return t.passes(link, false) })
	group.Wait()
}

// pump passes on what it reads, until one of the two ends, and ends both.
func pump(to, from net.Conn, passes func() bool) {
	defer from.Close()
	defer to.Close()
	packet := make([]byte, 64<<10)
	for {
		n, err := from.Read(packet)
		if n > 0 {
			if !passes() {
				return
			}
			if _, err := to.Write(packet[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
