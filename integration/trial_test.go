package integration

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
)

// trial is a series of operations, to each of which something happens.
type trial struct {
	g    *testDB
	mend func(context.Context) error // ends what has happened; then there is a server again

	doubts
	mu                     sync.Mutex
	done, refused, doubted int // what clients were told at once
	hits                   int // how often it did happen
}

// endure has one operation performed while something happens: strike begins it, mend
// ends it, when the client has got its answer, or, if the engine is to settle what has
// become of a COMMIT, as soon as it is in doubt. It then demands an answer, twice, and
// that all that was said is true. It returns what the client was told at once.
func (r *trial) endure(ctx context.Context, t *testing.T, settles bool, conns int, paper string, strike func() error) (told error, err error) {
	t.Helper()
	var broken error
	mend := sync.OnceFunc(func() { broken = r.mend(ctx) })
	defer mend()
	cfg := once.Config{Runs: 1, Settle: 300 * time.Millisecond, Observer: &r.doubts}
	if settles {
		cfg.Runs, cfg.Settle = 3, patience
		cfg.Observer = once.Observers(&r.doubts, whenInDoubt(mend))
	}
	s := r.g.open(t, setup{conns: conns, engine: cfg})
	defer s.Close()
	c := &client{s: s, name: "client", op: operation(once.NewKey()), like: work{paper: paper}}
	for { // a COMMIT on a busy machine may take longer than Settle
		err := warm(ctx, s, plan{Key: c.op.Key, Attempt: "warm"})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	if err := strike(); err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	got, told := c.ask(ctx)
	mend()
	if broken != nil {
		return told, fmt.Errorf("told %w, and afterwards: %w", told, broken)
	}
	r.count(told)
	if told != nil {
		if got, err = c.insist(ctx); err != nil {
			return told, err
		}
	}
	again, _, err := s.Another().Do(ctx, c.op, work{key: c.op.Key, attempt: "duplicate"})
	if err == nil && again != got {
		err = fmt.Errorf("the answer was %.80v, the repeated one is %.80v", got, again)
	}
	return told, errors.Join(err, r.g.truthful(ctx, c, got))
}

func (r *trial) count(told error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case told == nil:
		r.done++
	case once.EffectOf(told) == once.EffectNotApplied:
		r.refused++
	default:
		r.doubted++
	}
}

func (r *trial) String() string {
	return fmt.Sprintf("%d hits; told at once: %d done, %d not applied, %d in doubt; %v", r.hits, r.done, r.refused, r.doubted, &r.doubts)
}

// whenInDoubt runs when the answer to a COMMIT is lost.
type whenInDoubt func()

// Observe implements [once.Observer].
func (f whenInDoubt) Observe(_ context.Context, e once.Event) {
	if e.Type == once.EventInDoubt {
		f()
	}
}

// paper is text that cannot be compressed by more than half.
func paper(size int) string {
	from := rand.NewChaCha8([32]byte{byte(seed())})
	b := make([]byte, size/2)
	_, _ = from.Read(b)
	return hex.EncodeToString(b)
}
