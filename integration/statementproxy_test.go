package integration

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// statementProxy is a proxy that understands where statements begin, counts them, and makes the
// N-th one fail: by the server itself, which is given something else to run, or together
// with its connection.
type statementProxy struct {
	listener net.Listener
	target   string
	speaks   protocol
	group    sync.WaitGroup

	mu      sync.Mutex
	fault   fault
	left    int // statements before the fault; 0: it has struck, or there is none
	conns   map[net.Conn]bool
	skipped int // statements that were due, but which the server skips
}

// fault is what becomes of a statement, one of these.
type fault struct {
	name     string
	raise    string // the server runs this in its place
	inside   string // the server runs this in the middle of a packet, after the N-th semicolon: statements do not count
	undone   bool   // and not behind COMMIT, where nothing can meet it: a lock is let go there
	cut      bool   // it does not get there, and the connection ends
	lose     bool   // it is run, but its answer is lost with the connection
	meddle   func() // runs before it goes on its way
	overtake func() // runs when it is on its way
}

// frame is a part of what a client sends.
type frame struct {
	bytes  []byte
	text   string // that may be several statements in one packet
	counts bool   // as a statement
	part   bool   // of a pipeline
	ends   bool   // the server answers now
}

// protocol is what a database speaks.
type protocol interface {
	hello(client *bufio.Reader, server io.Writer) error // passes on what comes before the first frame, if it is different
	next(client *bufio.Reader) (frame, error)
	query(text string) []byte
	flush() []byte           // makes the server send what it has to say of the parts before
	reader() reader          // of what the server sends; nil: there are no pipelines
	over(answer []byte) bool // answer is complete
}

func newToll(tb testing.TB, target string, speaks protocol) *statementProxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	t := &statementProxy{listener: listener, target: target, speaks: speaks, conns: map[net.Conn]bool{}}
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

func (t *statementProxy) dsn(direct string) string {
	return relocated(direct, t.listener.Addr().String())
}

// arm makes the n-th statement from now on fail, over all connections.
func (t *statementProxy) arm(n int, f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault, t.left = f, n
}

// struck reports whether the fault has struck, and takes it back if not.
func (t *statementProxy) struck() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	struck := t.left == 0
	t.left = 0
	return struck
}

// meets counts a statement, or the ends of statements within it, and returns the frame as the server is to have it.
func (t *statementProxy) meets(f frame) (frame, fault, bool) {
	armed := t.armed()
	if armed.inside == "" {
		strikes, now := t.due()
		return f, strikes, now
	}
	for at, c := range f.text {
		if c != ';' {
			continue
		}
		if armed.undone && strings.HasSuffix(f.text[:at], "COMMIT") {
			break
		}
		if strikes, now := t.due(); now {
			f.bytes = t.speaks.query(f.text[:at+1] + " " + strikes.inside + ";" + f.text[at+1:])
			return f, strikes, now
		}
	}
	return f, fault{}, false
}

func (t *statementProxy) armed() fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fault
}

// due counts a statement.
func (t *statementProxy) due() (f fault, now bool) {
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

// putBack makes the next statement due, because the server skips this one.
func (t *statementProxy) putBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = 1
	t.skipped++
}

func (t *statementProxy) accept() {
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
		p := &passage{proxy: t, client: client, server: server, pipeline: newPipeline()}
		t.group.Go(p.up)
		t.group.Go(p.down)
	}
}

// passage is one connection.
type passage struct {
	proxy          *statementProxy
	client, server net.Conn
	pipeline       *pipeline

	mu   sync.Mutex
	mute bool // the client is to get nothing any more
}

func (p *passage) up() {
	defer p.server.Close()
	from := bufio.NewReaderSize(p.client, 64<<10)
	to := bufio.NewWriterSize(p.server, 64<<10)
	if p.proxy.speaks.hello(from, p.server) != nil {
		return
	}
	for skips := false; ; {
		f, err := p.proxy.speaks.next(from)
		if err != nil {
			return
		}
		var strikes fault
		now := false
		if f.counts && !skips {
			f, strikes, now = p.proxy.meets(f)
		}
		if strikes.raise != "" && p.skips(to) {
			p.proxy.putBack()
			strikes, now = fault{}, false
		}
		if strikes.meddle != nil {
			_ = to.Flush() // an error stays
			strikes.meddle()
		}
		switch {
		case strikes.cut:
			_ = p.client.Close()
			return
		case strikes.lose:
			p.mu.Lock() // until overtake has run: no process hears of the end of its connection earlier
			p.mute = true
		case strikes.raise != "":
			raise := frame{bytes: p.proxy.speaks.query(strikes.raise), ends: true}
			p.pipeline.sends(raise)
			_, _ = to.Write(raise.bytes)
			if !f.ends {
				skips = true // what has been sent with it, as a server that has failed does
			}
		}
		if !skips && strikes.raise == "" {
			p.pipeline.sends(f)
			_, _ = to.Write(f.bytes)
		}
		if f.ends {
			skips = false
		}
		if f.ends || now || from.Buffered() == 0 {
			err = to.Flush()
		}
		if strikes.overtake != nil {
			strikes.overtake()
		}
		if strikes.lose {
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// skips reports whether the server has failed, and skips what follows.
func (p *passage) skips(to *bufio.Writer) bool {
	if !p.pipeline.follows() {
		return false
	}
	_, _ = to.Write(p.proxy.speaks.flush())
	return to.Flush() == nil && p.pipeline.skips()
}

func (p *passage) down() {
	defer p.client.Close()
	defer p.pipeline.hear(func() { p.pipeline.over = true })
	buffer := make([]byte, 64<<10)
	reader := p.proxy.speaks.reader()
	for {
		n, err := p.server.Read(buffer)
		if reader != nil {
			reader.read(p.pipeline, buffer[:n])
		}
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if mute && n > 0 {
			if p.proxy.speaks.over(buffer[:n]) {
				return
			}
			n = 0
		}
		if _, e := p.client.Write(buffer[:n]); err != nil || e != nil {
			return
		}
	}
}
