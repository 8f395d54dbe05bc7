package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/store"
)

// witness knows whether the service writes receipts on a route with PolicyCheck. A missing receipt proves that a forward had no effect only if the
// service writes receipts at all: a service that is not wired to once, or writes to another database, has no receipts and commits.
//
// The gateway reads the receipt of the first request that the service answers with a success, and then one in a minute. As long as the witness has
// seen no receipt, or after one was missing, forwards of the route are treated as with PolicyStop.
type witness struct {
	g    *Gateway
	name string // of the operations of the route

	mu      sync.Mutex
	state   witnessState
	looking bool      // a goroutine reads a receipt
	due     time.Time // not before that the next receipt is read
	marked  bool      // the store has the mark that a receipt was seen
	logged  time.Time // when the log last got the error that a receipt is missing
}

type witnessState uint8

const (
	witnessNew     witnessState = iota // this process has read no receipt of the route: the marks in the store decide
	witnessSeen                        // the last receipt was there, or an earlier process has seen one
	witnessMissing                     // the last receipt was missing
)

const (
	witnessTime  = 2 * time.Second // bounds one look, with the write of its mark
	witnessEvery = time.Minute     // between two looks, while receipts are there
	witnessPause = 5 * time.Second // after a look that has failed
	missingKept  = 24 * time.Hour  // how long other processes remember that a receipt was missing
)

// witnessScope is the scope of the marks. It begins with the prefix that no principal can have.
const witnessScope = "gateway//receipts"

// trusts reports whether a missing receipt of the route proves that a forward had no effect.
func (w *witness) trusts(ctx context.Context) bool {
	switch w.now() {
	case witnessSeen:
		return true
	case witnessMissing:
		return false
	}
	seen, err := w.hasMark(ctx, "seen")
	if err != nil || !seen {
		return false
	}
	if missing, err := w.hasMark(ctx, "missing"); err != nil || missing {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marked = true
	if w.state == witnessNew { // or a look has ended meanwhile
		w.state = witnessSeen
	}
	return w.state == witnessSeen
}

func (w *witness) now() witnessState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// watch reads the receipt of a request that was answered, if it is time for it. It delays the answer by no more than one look, of one goroutine at a
// time. After a failed look nothing is known that was not known before.
func (w *witness) watch(ctx context.Context, rt *route, a *answer) {
	if a == nil || a.fromReceipt || a.cut || a.Class != classCompleted || a.said >= http.StatusMultipleChoices || !w.begin() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTime)
	defer cancel()
	select { // a look that would wait for questions of other requests is left to a later request
	case rt.asking <- struct{}{}:
	default:
		w.end(witnessNew, 0)
		return
	}
	r, found, err := w.g.cfg.Receipts.Look(ctx, a.Operation)
	<-rt.asking
	switch {
	case err != nil:
		w.end(witnessNew, witnessPause)
	case found && !r.Tombstone:
		w.end(witnessSeen, witnessEvery)
		w.tellSeen(ctx)
	default:
		w.end(witnessMissing, 0)
		w.missed(ctx, a.Operation)
	}
}

// begin reports whether the caller is to read a receipt now. end must follow.
func (w *witness) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looking || time.Now().Before(w.due) {
		return false
	}
	w.looking = true
	return true
}

// end notes what a look has found, witnessNew for nothing.
func (w *witness) end(found witnessState, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking, w.due = false, time.Now().Add(pause)
	if found != witnessNew {
		w.state = found
	}
}

// tellSeen stores that a receipt was seen, for other processes. A write that has failed is repeated after the next look.
func (w *witness) tellSeen(ctx context.Context) {
	w.mu.Lock()
	marked := w.marked
	w.mu.Unlock()
	if marked || !w.mark(ctx, "seen", store.Forever) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marked = true
}

// missed logs that a receipt is missing, once a minute at most, and stores it for processes that start later.
func (w *witness) missed(ctx context.Context, operation string) {
	w.mu.Lock()
	told := !w.logged.IsZero() && time.Since(w.logged) < witnessEvery
	if !told {
		w.logged = time.Now()
	}
	w.mu.Unlock()
	if told {
		return
	}
	w.mark(ctx, "missing", missingKept)
	w.log().ErrorContext(ctx, "the service has answered a request with success, but its receipt is missing, so the gateway does not forward unknown outcomes of this route again until it finds a receipt. "+
		"Try: insert the receipt in each transaction of the route, and set the primary of the database with these receipts in the configuration of the gateway",
		slog.String("route", w.name), slog.String("operation", operation))
}

func (w *witness) log() *slog.Logger { return cmp.Or(w.g.cfg.Store.Config().Log, slog.Default()) }

func (w *witness) markOf(what string) store.ID {
	key := what + " " + w.name
	if len(key) > keyname.MaxKey {
		key = keyname.Hashed(key)
	}
	return store.ID{Scope: witnessScope, Key: key}
}

func (w *witness) hasMark(ctx context.Context, what string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	rec, err := w.g.cfg.Store.Read(ctx, w.markOf(what))
	return rec.State == store.StateDone, err //nolint:wrapcheck // it is of the store
}

// mark stores a mark, unless it exists, and reports whether it exists now. Without it other processes have to see a receipt themselves.
func (w *witness) mark(ctx context.Context, what string, retain time.Duration) bool {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	_, err := w.g.cfg.Store.Swap(ctx, store.Change{
		ID: w.markOf(what), Retain: retain,
		Next: store.Record{State: store.StateDone, Nonce: nonce, Name: "receipts of a route"},
	})
	if err == nil || store.KindOf(err) == store.KindTaken {
		return true
	}
	w.log().WarnContext(ctx, "gateway: the gateway could not store whether the service writes receipts for a route", slog.String("route", w.name), slog.Any("error", err))
	return false
}
