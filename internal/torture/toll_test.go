package torture

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// toll is a proxy that understands where statements begin, counts them, and makes the
// N-th one fail: by the server itself, which is given something else to run, or together
// with its connection.
type toll struct {
	listener net.Listener
	target   string
	speaks   protocol
	group    sync.WaitGroup

	mu    sync.Mutex
	fault fault
	left  int // statements before the fault; 0: it has struck, or there is none
	conns map[net.Conn]bool
}

// fault is what becomes of a statement, one of these.
type fault struct {
	name     string
	raise    string // the server runs this in its place
	cut      bool   // it does not get there, and the connection ends
	lose     bool   // it is run, but its answer is lost with the connection
	meddle   func() // runs before it goes on its way
	overtake func() // runs when it is on its way
}

// frame is a part of what a client sends.
type frame struct {
	bytes  []byte
	counts bool // as a statement
	ends   bool // the server answers now
}

// protocol is what a database speaks.
type protocol interface {
	hello(client *bufio.Reader, server io.Writer) error // passes on what comes before the first frame, if it is different
	next(client *bufio.Reader) (frame, error)
	query(text string) []byte
	over(answer []byte) bool // answer is complete
}

func newToll(tb testing.TB, target string, speaks protocol) *toll {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	t := &toll{listener: listener, target: target, speaks: speaks, conns: map[net.Conn]bool{}}
	t.group.Go(t.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		t.mu.Lock()
		for c := range t.conns {
			_ = c.Close()
		}
		t.mu.Unlock()
		t.group.Wait()
	})
	return t
}

func (t *toll) dsn(direct string) string { return relocated(direct, t.listener.Addr().String()) }

// arm makes the n-th statement from now on fail, over all connections.
func (t *toll) arm(n int, f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault, t.left = f, n
}

// struck reports whether the fault has struck, and takes it back if not.
func (t *toll) struck() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	struck := t.left == 0
	t.left = 0
	return struck
}

// due counts a statement.
func (t *toll) due() (f fault, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == 0 {
		return f, false
	}
	if t.left--; t.left > 0 {
		return f, false
	}
	return t.fault, true
}

func (t *toll) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", t.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		t.mu.Lock()
		t.conns[client], t.conns[server] = true, true
		t.mu.Unlock()
		p := &passage{toll: t, client: client, server: server}
		t.group.Go(p.up)
		t.group.Go(p.down)
	}
}

// passage is one connection.
type passage struct {
	toll           *toll
	client, server net.Conn

	mu   sync.Mutex
	mute bool // the client is to get nothing any more
}

func (p *passage) up() {
	defer p.server.Close()
	from := bufio.NewReaderSize(p.client, 64<<10)
	to := bufio.NewWriterSize(p.server, 64<<10)
	if p.toll.speaks.hello(from, p.server) != nil {
		return
	}
	for skips := false; ; {
		f, err := p.toll.speaks.next(from)
		if err != nil {
			return
		}
		var strikes fault
		now := false
		if f.counts && !skips {
			strikes, now = p.toll.due()
		}
		if strikes.meddle != nil {
			if to.Flush() != nil {
				return
			}
			strikes.meddle()
		}
		switch {
		case strikes.cut:
			_ = p.client.Close()
			return
		case strikes.lose:
			p.mu.Lock()
			p.mute = true
			p.mu.Unlock()
		case strikes.raise != "":
			if f.bytes = p.toll.speaks.query(strikes.raise); !f.ends {
				skips = true // what has been sent with it, as a server that has failed does
			}
			_, _ = to.Write(f.bytes)
			f.bytes = nil
		}
		if !skips {
			_, _ = to.Write(f.bytes)
		}
		if f.ends {
			skips = false
		}
		if f.ends || now || from.Buffered() == 0 {
			if to.Flush() != nil {
				return
			}
		}
		if strikes.overtake != nil {
			strikes.overtake()
		}
	}
}

func (p *passage) down() {
	defer p.client.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.server.Read(buffer)
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if mute && n > 0 {
			if p.toll.speaks.over(buffer[:n]) {
				return
			}
			n = 0
		}
		if _, e := p.client.Write(buffer[:n]); err != nil || e != nil {
			return
		}
	}
}

// postgresWire is the protocol of PostgreSQL, without encryption.
type postgresWire struct{}

func (postgresWire) hello(client *bufio.Reader, server io.Writer) error {
	size, err := client.Peek(4)
	if err == nil {
		_, err = io.CopyN(server, client, int64(binary.BigEndian.Uint32(size)))
	}
	return err
}

func (postgresWire) next(client *bufio.Reader) (f frame, err error) {
	head, err := client.Peek(5)
	if err != nil {
		return f, err
	}
	f.bytes = make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
	_, err = io.ReadFull(client, f.bytes)
	switch f.bytes[0] {
	case 'Q':
		f.counts, f.ends = true, true
	case 'P', 'E': // parse, execute
		f.counts = true
	case 'S', 'p': // sync, a password
		f.ends = true
	}
	return f, err
}

func (postgresWire) query(text string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(text)+1))
	return append(append(b, text...), 0)
}

func (postgresWire) over(answer []byte) bool {
	n := len(answer)
	return n >= 6 && string(answer[n-6:n-1]) == "Z\x00\x00\x00\x05"
}

func raisePostgres(state string) string {
	return fmt.Sprintf("do $$ begin raise exception using errcode = '%s', message = 'raised'; end $$", state)
}

// mysqlWire is the protocol of MySQL and MariaDB, without encryption.
type mysqlWire struct{}

func (mysqlWire) hello(*bufio.Reader, io.Writer) error { return nil }

func (mysqlWire) next(client *bufio.Reader) (f frame, err error) {
	head, err := client.Peek(4)
	if err != nil {
		return f, err
	}
	f.bytes = make([]byte, 4+int(head[0])+int(head[1])<<8+int(head[2])<<16)
	_, err = io.ReadFull(client, f.bytes)
	const query, prepare, execute = 0x03, 0x16, 0x17
	if begins := f.bytes[3] == 0 && len(f.bytes) > 4; begins { // else it is a part of the login
		f.counts = f.bytes[4] == query || f.bytes[4] == prepare || f.bytes[4] == execute
	}
	f.ends = true
	return f, err
}

func (mysqlWire) query(text string) []byte {
	n := 1 + len(text)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, 0x03}, text...)
}

// over: every answer here is small.
func (mysqlWire) over([]byte) bool { return true }

// A deadlock takes the transaction along, a lock wait does not.
func raiseMariaDB(code int) string {
	signal := fmt.Sprintf("signal sqlstate 'HY000' set mysql_errno = %d, message_text = 'raised'", code)
	if code == 1213 {
		return "begin not atomic rollback; " + signal + "; end"
	}
	return signal
}
