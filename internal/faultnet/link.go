package faultnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection through the proxy: a client, the server behind it, and a line for each direction. Faults
// strike at the server's end: after the delay on the way to the server, and before the delay on the way back.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	up, down       *line

	asking  atomic.Bool // the client has sent something, and the server has not answered yet
	swallow atomic.Pointer[swallow]

	ended    atomic.Int32 // how many directions have finished without an error
	cutOnce  sync.Once
	shutOnce sync.Once
	gone     chan struct{}
}

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	l := &link{proxy: p, client: client, server: server, gone: make(chan struct{})}
	toServer, toClient := p.delays()
	l.up = newLine(toServer, p.options.spin, l.gone, l.toServer)
	l.down = newLine(toClient, p.options.spin, l.gone, l.toClient)
	return l
}

// run forwards in both directions until the connection is gone.
func (l *link) run() {
	var group sync.WaitGroup
	group.Go(l.readClient)
	group.Go(l.readServer)
	group.Go(l.up.run)
	group.Go(l.down.run)
	group.Wait()
	l.shut()
}

const bufferSize = 32 << 10

func (l *link) readClient() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			l.up.send(buffer[:n], goesOn)
		}
		if err != nil {
			l.up.send(nil, endingOf(err))
			return
		}
	}
}

// toServer receives what comes out of the line up.
func (l *link) toServer(data []byte, end ending) {
	if len(data) > 0 {
		v, trigger := verdict{pass: len(data)}, l.proxy.armed.Load()
		if trigger != nil && l.swallow.Load() == nil {
			v = trigger.toServer(l, data)
		}
		if v.swallow != nil {
			// Stored before the server can see the pattern, so that no part of its answer reaches the client.
			l.swallow.Store(v.swallow)
		}
		l.asking.Store(true)
		l.proxy.stats.fromClient.Add(int64(v.pass))
		// readServer reports an error: the server may have said why it closes, and that is still to be
		// read.
		_, _ = l.server.Write(data[:v.pass])
		if v.cut {
			l.cut(trigger)
			return
		}
	}
	s := l.swallow.Load()
	if end == goesOn || s != nil && !s.forever {
		// In the second case the client may have given up, but the server must finish its work. Its answer
		// ends the connection.
		return
	}
	if end == finished && s == nil {
		_ = l.server.CloseWrite() // readServer sees an error
		l.finish()
		return
	}
	l.cut(nil)
}

func (l *link) readServer() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 && !l.fromServer(buffer[:n]) {
			return
		}
		if err == nil {
			continue
		}
		if s := l.swallow.Load(); s != nil { // the server has ended, or was silent after its answer
			if !errors.Is(err, net.ErrClosed) {
				l.cut(s.trigger)
			}
			return
		}
		l.down.send(nil, endingOf(err))
		return
	}
}

// fromServer handles bytes of the server. It returns false if no more of them are wanted.
func (l *link) fromServer(data []byte) bool {
	first := l.asking.Swap(false)
	if first {
		l.proxy.stats.roundTrips.Add(1)
	}
	if s := l.swallow.Load(); s != nil {
		return l.absorb(s, data)
	}
	v, trigger := verdict{pass: len(data)}, l.proxy.armed.Load()
	if trigger != nil {
		v = trigger.toClient(data, first)
	}
	if v.swallow != nil {
		l.swallow.Store(v.swallow)
		return l.absorb(v.swallow, data)
	}
	l.proxy.stats.fromServer.Add(int64(v.pass))
	if v.pass > 0 {
		l.down.send(data[:v.pass], goesOn)
	}
	if v.cut {
		l.cut(trigger)
	}
	return !v.cut
}

// absorb keeps bytes from the client, and cuts the connection when the answer is complete.
func (l *link) absorb(s *swallow, data []byte) bool {
	if s.forever {
		return true
	}
	if s.complete(data) {
		l.cut(s.trigger)
		return false
	}
	if err := l.server.SetReadDeadline(time.Now().Add(s.silence)); err != nil {
		l.cut(s.trigger)
		return false
	}
	return true
}

// toClient receives what comes out of the line down.
func (l *link) toClient(data []byte, end ending) {
	if len(data) > 0 {
		// readClient reports an error, because it knows whether the server must finish its work
		// first.
		_, _ = l.client.Write(data)
	}
	switch end {
	case goesOn:
	case finished:
		_ = l.client.CloseWrite() // readClient sees an error
		l.finish()
	case broken, severed:
		l.shut()
	}
}

// finish closes the connection if both directions have ended.
func (l *link) finish() {
	if l.ended.Add(1) == 2 {
		l.shut()
	}
}

// cut ends the connection: to the server at once, and to the client after the bytes that are on the way to
// it.
func (l *link) cut(trigger *Trigger) {
	l.cutOnce.Do(func() {
		l.hangUp(l.server)
		if l.down.parcels == nil {
			l.shut()
		} else {
			l.down.send(nil, severed)
			// A trigger is done only when the client's side is closed as well.
			<-l.gone
		}
		if trigger != nil {
			trigger.carriedOut()
		}
	})
}

// shut closes both sides now.
func (l *link) shut() {
	l.shutOnce.Do(func() {
		l.hangUp(l.server)
		l.hangUp(l.client)
		close(l.gone)
	})
}

func (l *link) hangUp(conn *net.TCPConn) {
	if l.proxy.options.reset {
		_ = conn.SetLinger(0) // fails only on a closed connection
	}
	_ = conn.Close()
}

func endingOf(err error) ending {
	if errors.Is(err, io.EOF) {
		return finished
	}
	return broken
}
