package faultnet

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// PostgresIdle is the message that ends the answer of a PostgreSQL server to a commit, whether the commit has
// succeeded or not: no transaction is open after it. Answers to earlier commands of a pipeline do not contain it.
const PostgresIdle = "Z\x00\x00\x00\x05I"

// How long a server must be silent after the beginning of its answer, until the answer counts as complete. If the
// end of the answer is known, the longer time counts, in case the end never comes.
const (
	silence          = 20 * time.Millisecond
	silenceBeforeEnd = 5 * time.Second
)

// Fault is something that goes wrong on a [Proxy] after it is armed there. Its numbers count from that moment, over
// all connections.
type Fault struct {
	judge func() judge
}

// judge decides what happens to the bytes at the server's end of the proxy. A trigger calls it under the trigger's
// lock.
type judge interface {
	// toServer sees bytes that are about to be forwarded to the server.
	toServer(l *link, data []byte) verdict
	// toClient sees bytes that the server has sent. first says that they begin the answer to something that the
	// client has sent.
	toClient(data []byte, first bool) verdict
}

// verdict is the decision about judged bytes.
type verdict struct {
	pass    int      // how many of the bytes are forwarded
	cut     bool     // the connection is cut afterwards
	swallow *swallow // if set, nothing more reaches the client: see swallow
}

func (v verdict) strikes() bool { return v.cut || v.swallow != nil }

// CutAfterClientBytes cuts a connection in both directions once n bytes of
// clients have been forwarded to the server.
func CutAfterClientBytes(n int64) Fault {
	return Fault{func() judge { return &cutAfterClient{countdown{left: n}} }}
}

// CutAfterServerBytes cuts a connection in both directions once n bytes of the
// server have been forwarded to clients.
func CutAfterServerBytes(n int64) Fault {
	return Fault{func() judge { return &cutAfterServer{countdown{left: n}} }}
}

// CutBefore cuts a connection when a client sends the pattern. The server does not get the pattern: at least its
// last byte is not forwarded.
func CutBefore(pattern string) Fault {
	return Fault{func() judge { return &cutBefore{finder: newFinder(pattern)} }}
}

// SwallowAnswer loses the answer to the pattern. The pattern is forwarded to the server, with all that follows it,
// but the client gets nothing from that moment on. The connection to the server stays open until the server has
// answered, even if the client gives up. Then both sides are cut, so the server has done its work when the client
// sees the end.
//
// The answer is complete when it contains until, or when the server falls silent if until is empty or does not
// come. Use [PostgresIdle] for the COMMIT of a PostgreSQL client. Some clients send COMMIT in lower case.
func SwallowAnswer(pattern, until string) Fault {
	return Fault{func() judge { return &swallowAnswer{finder: newFinder(pattern), until: until} }}
}

// Withhold keeps the answer to the pattern, and everything after it, from each connection that sends the pattern
// while the fault is armed. The connection stays open until the client closes it, so the server is silent and not
// gone. The empty pattern matches everything that a client sends, a login as well.
func Withhold(pattern string) Fault {
	return Fault{func() judge { return &withhold{pattern: pattern, windows: make(map[*link]*window)} }}
}

// DropEvery loses every k-th answer and cuts its connection, as SwallowAnswer does, again and again. An answer is
// all that the server sends after the client has sent something. The greeting of a login is an answer, too.
func DropEvery(k int64, until string) Fault {
	return Fault{func() judge { return &dropEvery{k: k, until: until} }}
}

// Trigger reports whether an armed fault has struck.
type Trigger struct {
	fired, done        chan struct{}
	fireOnce, doneOnce sync.Once
	count              atomic.Int64
	mu                 sync.Mutex
	judge              judge
}

func newTrigger(fault Fault) *Trigger {
	return &Trigger{fired: make(chan struct{}), done: make(chan struct{}), judge: fault.judge()}
}

// Fired is closed when the fault strikes for the first time.
func (t *Trigger) Fired() <-chan struct{} { return t.fired }

// Done is closed when the first connection that the fault struck has been cut on both sides. For a lost answer,
// this is after the server has answered.
func (t *Trigger) Done() <-chan struct{} { return t.done }

// Count returns how often the fault has struck.
func (t *Trigger) Count() int64 { return t.count.Load() }

func (t *Trigger) toServer(l *link, data []byte) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.note(t.judge.toServer(l, data))
}

func (t *Trigger) toClient(data []byte, first bool) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.note(t.judge.toClient(data, first))
}

func (t *Trigger) note(v verdict) verdict {
	if v.strikes() {
		t.count.Add(1)
		t.fireOnce.Do(func() { close(t.fired) })
	}
	if v.swallow != nil {
		v.swallow.trigger = t
	}
	return v
}

func (t *Trigger) carriedOut() { t.doneOnce.Do(func() { close(t.done) }) }

// swallow is the state of a connection that loses an answer.
type swallow struct {
	trigger *Trigger
	silence time.Duration
	until   *window // nil: only silence ends the answer
	forever bool    // only the client ends the answer
}

func newSwallow(until string) *swallow {
	if until == "" {
		return &swallow{silence: silence}
	}
	return &swallow{silence: silenceBeforeEnd, until: &window{pattern: []byte(until)}}
}

// complete reports whether data completes the answer.
func (s *swallow) complete(data []byte) bool {
	if s.until == nil {
		return false
	}
	_, found := s.until.find(data)
	return found
}

// window finds a pattern in a stream that arrives in pieces.
type window struct {
	pattern, tail []byte
}

// find returns where in data the first occurrence ends.
func (w *window) find(data []byte) (int, bool) {
	stream := slices.Concat(w.tail, data)
	if at := bytes.Index(stream, w.pattern); at >= 0 {
		return at + len(w.pattern) - len(w.tail), true
	}
	// The pattern may continue in the next piece, so its possible beginning is kept.
	w.tail = bytes.Clone(stream[max(0, len(stream)-len(w.pattern)+1):])
	return 0, false
}
