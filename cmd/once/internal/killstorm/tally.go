package killstorm

import "sync"

// tally counts the sent requests and the received answers.
type tally struct {
	mu      sync.Mutex
	n       counts
	first   map[*order]answer // the first successful answer that a client got
	differs map[*order]int
}

type counts struct {
	attempts  int
	replayed  int
	mismatch  int
	inFlight  int
	dropped   int // answers that the network lost
	broken    int // connections that ended because the server was killed
	down      int // attempts that could not connect to the server
	abandoned int // requests that their client cut off or disconnected from
	compared  int // answers after the first of their order
	finished  int // orders
	kills     int // of the service

	clientKills int
	resumed     int // intents that the next process of a client has resumed
}

func newTally() *tally {
	return &tally{first: map[*order]answer{}, differs: map[*order]int{}}
}

func (t *tally) attempt(v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n.attempts++
	switch v.word {
	case replayed:
		t.n.replayed++
	case mismatch:
		t.n.mismatch++
	case inFlight:
		t.n.inFlight++
	case noAnswer:
		switch v.code {
		case "answer_dropped":
			t.n.dropped++
		case "client_hung_up", "request_cut_off":
			t.n.abandoned++
		case "server_down":
			t.n.down++
		case "connection_lost":
			t.n.broken++
		}
	}
}

// answered keeps the first success of o and compares the others with it.
func (t *tally) answered(o *order, a answer) (same bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.first[o]
	if !ok {
		t.first[o] = a
		return true
	}
	t.n.compared++
	if !f.same(a) {
		t.differs[o]++
		return false
	}
	return true
}

// differ counts an answer that was not replayed from the record, even if its bytes are the same.
func (t *tally) differ(o *order) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.differs[o]++
}

func (t *tally) answerOf(o *order) (answer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.first[o]
	return a, ok
}

func (t *tally) finished() { t.count(func(n *counts) { n.finished++ }) }
func (t *tally) killed()   { t.count(func(n *counts) { n.kills++ }) }
func (t *tally) resumed()  { t.count(func(n *counts) { n.resumed++ }) }

func (t *tally) killedClient() { t.count(func(n *counts) { n.clientKills++ }) }

func (t *tally) count(f func(*counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.n)
}

func (t *tally) counts() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

func (t *tally) differences() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.differs {
		n += d
	}
	return n
}
