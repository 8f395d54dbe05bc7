package once_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

type tx = *memstore.Tx

// charge counts in the row of key, and returns a value that no other run returns.
func charge(key string) func(context.Context, tx) (string, error) {
	return func(_ context.Context, t tx) (string, error) {
		v, _, err := t.Get(key)
		if err != nil {
			return "", err
		}
		n, _ := strconv.Atoi(v)
		return once.NewKey(), t.Put(key, strconv.Itoa(n+1))
	}
}

func wantEffects(t *testing.T, s *memstore.Store, key string, want int) {
	t.Helper()
	v, _ := s.Get(key)
	if n, _ := strconv.Atoi(v); n != want {
		t.Errorf("%d effects of %s, want %d", n, key, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass: in a bubble, where time is not real.
func pass(d time.Duration) { <-time.After(d) }

// recorder is an observer that keeps what it sees.
type recorder struct {
	mu     sync.Mutex
	events []once.Event
}

func (r *recorder) Observe(_ context.Context, e once.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) take() []once.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// last returns the last event that was seen.
func (r *recorder) last(t *testing.T) once.Event {
	t.Helper()
	events := r.take()
	if len(events) == 0 {
		t.Fatal("no event")
	}
	return events[len(events)-1]
}

// spy lets a test stand between the engine and its store.
type spy struct {
	store.Store[tx]
	begin  func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error)
	commit func(ctx context.Context, txn store.Transaction[tx], c store.Change) error
	undo   func(ctx context.Context, txn store.Transaction[tx]) error
}

func (s *spy) Unwrap() any { return s.Store }

func (s *spy) Begin(ctx context.Context, ask store.BeginOptions) (txn store.Transaction[tx], rec store.Record, err error) {
	if s.begin != nil {
		txn, rec, err = s.begin(ctx, ask)
	} else {
		txn, rec, err = s.Store.Begin(ctx, ask)
	}
	if txn != nil {
		txn = &spyTxn{txn, s}
	}
	return txn, rec, err
}

type spyTxn struct {
	store.Transaction[tx]
	s *spy
}

func (t *spyTxn) Unwrap() any { return t.Transaction }

func (t *spyTxn) Commit(ctx context.Context, c store.Change) error {
	if t.s.commit != nil {
		return t.s.commit(ctx, t.Transaction, c)
	}
	return t.Transaction.Commit(ctx, c)
}

func (t *spyTxn) Rollback(ctx context.Context) error {
	if t.s.undo != nil {
		return t.s.undo(ctx, t.Transaction)
	}
	return t.Transaction.Rollback(ctx)
}

// words are the events of one call, one word each.
func words(events []once.Event) []string {
	var w []string
	for _, e := range events {
		word := string(e.Type)
		switch {
		case e.Type == once.EventFinished:
			word += " " + string(e.Outcome) + ", " + e.Effect.String()
		case e.Type == once.EventSettled && e.Err == nil:
			word += " applied"
		case e.Type == once.EventSettled:
			word += " not applied"
		}
		w = append(w, word)
	}
	return w
}

func wantEvents(t *testing.T, r *recorder, want ...string) []once.Event {
	t.Helper()
	events := r.take()
	if got := words(events); !slices.Equal(got, want) {
		t.Errorf("events %q\n  want %q", got, want)
	}
	return events
}
