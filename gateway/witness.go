package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/store"
)

// witness knows whether the service writes receipts on a route with PolicyCheck. A missing receipt proves that
// a forward had no effect only if the service writes receipts. A service without this code, or with another
// database, commits without receipts.
//
// The gateway reads the receipt of the first request that the service answers with a success, and then one in a minute. As long as the witness has
// seen no receipt, or after one was missing, forwards of the route are treated as with PolicyStop.
type witness struct {
	g    *Gateway
	name string // the name of the operations of the route

	mu      sync.Mutex
	state   witnessState
	looking bool         // a goroutine reads a receipt
	due     time.Time    // the next receipt is not read before this time
	told    witnessState // the last state that this process has stored for other processes
	stopped bool         // the log has the reason why the route is handled as with PolicyStop
	logged  time.Time    // when the log last received the error of a missing receipt
}

type witnessState uint8

const (
	witnessNew     witnessState = iota // this process has read no receipt of the route, so the marks in the store decide
	witnessSeen                        // the last receipt existed, or an earlier process has seen one
	witnessMissing                     // the last receipt was missing
)

const (
	witnessTime  = 2 * time.Second // limits the time of one look, including the write of its mark
	witnessEvery = time.Minute     // the pause between two looks while receipts exist
	witnessPause = 5 * time.Second // the pause after a look that has failed
	missingKept  = 24 * time.Hour  // how long other processes remember that a receipt was missing

	// A mark never changes, so the next time that a receipt is missing needs another mark. The last of these marks is not revoked: after so many
	// changes in a day, a process that starts trusts only a receipt that it has seen itself.
	missingMarks = 4
)

// witnessScope is the scope of the marks. Its prefix is not possible for a principal.
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
	// Without proof that the service writes receipts, a missing receipt proves nothing.
	if err != nil || !seen {
		if err == nil {
			w.tellStop(ctx, slog.LevelInfo, "the gateway has found no receipt of the route yet, so it handles the route as with on_unknown: stop until it finds a receipt")
		}
		return false
	}
	if missing, err := w.missing(ctx); err != nil || missing != nil {
		if err == nil {
			w.tellStop(ctx, slog.LevelWarn, "a receipt of the route was missing in the last 24 hours, so the gateway handles the route as with on_unknown: stop until it finds a receipt. "+
				"Try: insert the receipt in each transaction of the route")
		}
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == witnessNew { // another goroutine may have ended a look meanwhile
		w.state, w.told = witnessSeen, witnessSeen
	}
	return w.state == witnessSeen
}

// tellStop logs one time, in a process that starts, why the route is handled as with PolicyStop. Otherwise an operator would see only operations
// that need a decision.
func (w *witness) tellStop(ctx context.Context, level slog.Level, why string) {
	w.mu.Lock()
	told := w.stopped
	w.stopped = true
	w.mu.Unlock()
	if !told {
		w.log().LogAttrs(ctx, level, why, slog.String("route", w.name))
	}
}

func (w *witness) now() witnessState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// watch reads the receipt of an answered request, if a look is due. The look delays only this answer. A failed
// look changes nothing.
func (w *witness) watch(ctx context.Context, rt *route, a *answer) {
	if a == nil || a.fromReceipt || a.cut || a.Class != classCompleted || a.said >= http.StatusMultipleChoices || !w.begin() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTime)
	defer cancel()
	leave, ok := rt.askNow()
	if !ok { // a look does not wait for other requests: a later request looks
		w.end(witnessNew, 0)
		return
	}
	r, found, err := w.g.cfg.Receipts.Look(ctx, a.Operation)
	leave()
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

// begin reports whether the caller must read a receipt now. The caller then calls end.
func (w *witness) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looking || time.Now().Before(w.due) {
		return false
	}
	w.looking = true
	return true
}

// end records the result of a look: found, or witnessNew if the look found out nothing.
func (w *witness) end(found witnessState, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking, w.due = false, time.Now().Add(pause)
	if found != witnessNew {
		w.state = found
	}
}

// tellSeen stores for other processes that a receipt was seen: it stores the mark of the route, and revokes the mark of a missing receipt. If a
// write fails, the next look repeats it.
func (w *witness) tellSeen(ctx context.Context) {
	w.mu.Lock()
	told := w.told
	w.mu.Unlock()
	if told == witnessSeen || !w.mark(ctx, "seen", store.Forever) {
		return
	}
	missing, err := w.missing(ctx)
	if err == nil && missing != nil && !missing.last { // the new mark is younger than the mark that it revokes, so it expires later
		w.mark(ctx, missing.revoked, missingKept)
		missing, err = w.missing(ctx)
	}
	if err == nil && (missing == nil || missing.last) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = witnessSeen
	}
}

// missed logs that a receipt is missing, at most once a minute, and stores a mark for processes that start
// later.
func (w *witness) missed(ctx context.Context, operation string) {
	w.mu.Lock()
	logged := !w.logged.IsZero() && time.Since(w.logged) < witnessEvery
	if !logged {
		w.logged = time.Now()
	}
	w.told = witnessMissing // also if the answer of the store is lost
	w.mu.Unlock()
	if logged { // and the mark is stored: the pause after a receipt that was seen is as long
		return
	}
	w.tellMissing(ctx)
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

// missingMark is a mark which says that a receipt was missing.
type missingMark struct {
	revoked string // the name of the mark which says that a receipt was seen later
	last    bool   // the mark cannot be revoked
}

// missing returns a mark of a missing receipt that is not revoked, or nil.
func (w *witness) missing(ctx context.Context) (*missingMark, error) {
	for i := range missingMarks {
		rec, err := w.read(ctx, missingName(i))
		if err != nil {
			return nil, err
		}
		if rec.State != store.StateDone {
			continue
		}
		m := &missingMark{revoked: "revoked " + hex.EncodeToString(rec.Nonce), last: i == missingMarks-1}
		if revoked, err := w.hasMark(ctx, m.revoked); err != nil || !revoked {
			return m, err
		}
	}
	return nil, nil //nolint:nilnil // nil is the normal case: no receipt was missing
}

// tellMissing stores a mark of a missing receipt, unless the store has one that is not revoked.
func (w *witness) tellMissing(ctx context.Context) {
	m, err := w.missing(ctx)
	for i := 0; i < missingMarks && m == nil && err == nil; i++ {
		w.mark(ctx, missingName(i), missingKept)
		m, err = w.missing(ctx) // nil: the mark i exists and is revoked
	}
}

func missingName(i int) string {
	if i == 0 {
		return "missing"
	}
	return "missing#" + strconv.Itoa(i)
}

func (w *witness) hasMark(ctx context.Context, what string) (bool, error) {
	rec, err := w.read(ctx, what)
	return rec.State == store.StateDone, err
}

func (w *witness) read(ctx context.Context, what string) (store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	return w.g.cfg.Store.Read(ctx, w.markOf(what)) //nolint:wrapcheck // the error is of the store
}

// mark stores a mark unless the mark exists, and reports whether the mark exists now. Without the mark, other
// processes must see a receipt themselves.
func (w *witness) mark(ctx context.Context, what string, retain time.Duration) bool {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // crypto/rand never returns an error
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
