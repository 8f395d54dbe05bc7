package roundtrippertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

// Journaled is a client with a journal: before the client sends a request with a key, the client stores the request, so that the
// next process can send the request again.
type Journaled struct {
	http.RoundTripper

	// Resume sends all open requests of the journal again, and returns when all these requests are
	// answered.
	Resume func(ctx context.Context) error

	// Close closes the journal, so that another client can use the directory. Close may be nil.
	Close func() error
}

// journalChecks are about clients that die.
var journalChecks = []Check{
	{"KilledAndResumed", "if a client is killed after it has sent a request, its next process sends the request one more time, with the same key", (*lab).killedAndResumed},
}

var errNoJournal = errors.New("the candidate has no client with a journal (Candidate.NewWithJournal is nil)")

// killedAndResumed kills a client: nothing that it does has an effect from the moment at
// which its request has arrived, and the next one finds the files of that moment.
func (l *lab) killedAndResumed() error {
	if l.candidate.NewWithJournal == nil {
		return errNoJournal
	}
	dir, err := os.MkdirTemp("", "roundtrippertest")
	if err != nil {
		return err
	}
	l.atEnd(func() { _ = os.RemoveAll(dir) })
	first, later := dir+"/first", dir+"/later"
	if err := os.Mkdir(first, 0o700); err != nil {
		return err
	}
	var dead atomic.Bool
	copied := make(chan error, 1)
	s := l.serve(func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			dead.Store(true)
			copied <- os.CopyFS(later, os.DirFS(first))
			reset(w)
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		_, _ = io.WriteString(w, "done")
	})
	c, _, end, err := l.journaled(first, &dead)
	if err != nil {
		return err
	}
	defer end()
	if a, err := l.post(c, s.URL+"/refunds"); err == nil {
		return fmt.Errorf("the call of the killed client must return an error, but has returned the answer %d", a.status)
	}
	if err := s.wantSends(1); err != nil {
		return err
	}
	if err := <-copied; err != nil {
		return err
	}
	for process := 2; process <= 3; process++ { // the last one has nothing to do
		_, resume, end, err := l.journaled(later, new(atomic.Bool))
		if err != nil {
			return err
		}
		err = resume(l.ctx)
		end()
		if err := errors.Join(err, s.wantSends(2), s.same(testKey, testBody)); err != nil {
			return fmt.Errorf("process %d: %w", process, err)
		}
	}
	if path := s.arrivals()[1].path; path != "/refunds" {
		return fmt.Errorf("the request was sent again to %s", path)
	}
	return nil
}

// journaled returns a client that keeps a journal in dir, until it is dead.
func (l *lab) journaled(dir string, dead *atomic.Bool) (c *client, resume func(context.Context) error, end func(), err error) {
	var j Journaled
	c = l.make(func(base http.RoundTripper) http.RoundTripper {
		j, err = l.candidate.NewWithJournal(dir, mortal{base, dead})
		return j
	})
	if err != nil {
		return nil, nil, nil, err
	}
	end = func() {
		if j.Close != nil {
			_ = j.Close()
		}
	}
	return c, j.Resume, end, nil
}

// mortal sends the requests of a client until the client is killed.
type mortal struct {
	http.RoundTripper

	dead *atomic.Bool
}

var errDead = errors.New("the client was killed by this check")

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, errDead
	}
	return m.RoundTripper.RoundTrip(r)
}
