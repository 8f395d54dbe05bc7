package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
)

// inboxRedriven is a redrive of many dead letters.
type inboxRedriven struct {
	Letters int     `json:"letters"`
	Rate    float64 `json:"rate"` // requested rate, per second
	Kept    float64 `json:"kept"` // measured rate
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`      // in ten seconds
	Heap    [2]int  `json:"heap"`      // the most bytes in the first and in the second half
	Within  bool    `json:"within"`    // 5 % of the rate
	Flat    bool    `json:"flat"`      // the memory
	Applied int64   `json:"applied"`   // letters
	Effects int64   `json:"effects"`   // rows that the handler has written
	Waiting int64   `json:"remaining"` // letters
}

const (
	redriveTolerance = 0.05
	redriveWindow    = 10 * time.Second
)

// loadLetters makes failed messages, with their IDs in the inbox.
const loadLetters = `with m as (select gen_random_uuid()::text as id, ('0190' || lpad(to_hex(g), 28, '0'))::uuid::text as uid from generate_series(1, $3::int) g),
 i as (insert into once_inbox (consumer, source, event_id, payload_hash, received_at) select $1, $2, id, sha256(id::bytea), now() from m)
 insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, key, seq, event_type, headers, payload, encrypted, trace,
  class, error, cause, attempts, first_failed_at, dead_at, state, redrive, reason)
 select uid, 'inbox', $1, $2, id, sha256(id::bytea), 'charges', '', 0, 'charge.succeeded', '', decode(repeat('61', 300), 'hex'), false, '',
  'failed', 'the account is closed', 'the account is closed', 10, now(), now(), 'dead', '', '' from m`

func (b *bench) inboxRedrive(ctx context.Context) (*inboxRedriven, error) {
	r := &inboxRedriven{Letters: 1e5, Rate: 300}
	if b.quick {
		r.Letters, r.Rate = 3000, 60
	}
	done := &redriven{at: make([]time.Time, r.Letters), all: make(chan struct{})}
	f, err := b.openInbox(ctx, 0, done)
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	for _, s := range []string{"truncate once_inbox", "vacuum analyze once_deadletter"} {
		if _, err := f.pool.Exec(ctx, s); err != nil {
			return nil, err
		}
	}
	if _, err := f.pool.Exec(ctx, loadLetters, inboxConsumer, inboxSource, r.Letters); err != nil {
		return nil, err
	}
	if _, err := f.pool.Exec(ctx, "vacuum analyze once_inbox, once_deadletter"); err != nil {
		return nil, err
	}
	if err := r.run(ctx, f, done); err != nil {
		return nil, err
	}
	err = f.pool.QueryRow(ctx, "select (select count(*) from once_deadletter where state = 'applied'), (select count(*) from once_deadletter where state = 'dead'), (select count(*) from ledger_entry)").
		Scan(&r.Applied, &r.Waiting, &r.Effects)
	if err == nil && (r.Applied != int64(r.Letters) || r.Effects != int64(r.Letters)) {
		err = fmt.Errorf("of %d letters, %d were applied with %d effects", r.Letters, r.Applied, r.Effects)
	}
	return r, err
}

// redriven counts applied letters.
type redriven struct {
	at  []time.Time
	n   atomic.Int64
	all chan struct{}
}

// Observe implements [inbox.Observer].
func (r *redriven) Observe(_ context.Context, e inbox.Event) {
	if e.Type != inbox.EventApplied {
		return
	}
	n := int(r.n.Add(1))
	if n > len(r.at) { // the count of the effects shows it
		return
	}
	if r.at[n-1] = time.Now(); n == len(r.at) {
		close(r.all)
	}
}

// run redrives all letters.
func (r *inboxRedriven) run(ctx context.Context, f *inboxField, done *redriven) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.in.Run(ctx, inboxEffect) }()
	began := time.Now()
	letters := deadletter.New(f.store, deadletter.Config{})
	o := deadletter.RedriveOptions{Who: "bench", Reason: "the account is open", Rate: r.Rate}
	if _, err := letters.Redrive(ctx, deadletter.Filter{Origin: "inbox", Consumer: inboxConsumer}, o); err != nil {
		return err
	}
	if err := r.watch(ctx, done, ended); err != nil {
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	r.Kept = float64(r.Letters) / done.at[r.Letters-1].Sub(began).Seconds()
	r.Within = math.Abs(r.Kept/r.Rate-1) <= redriveTolerance
	r.Flat = float64(r.Heap[1]) <= 1.1*float64(r.Heap[0])
	r.windows(done.at)
	return nil
}

// watch reads the size of the heap once a second, until all letters are applied.
func (r *inboxRedriven) watch(ctx context.Context, done *redriven, ended <-chan error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done.all:
			return nil
		case err := <-ended:
			return errors.Join(err, errors.New("Run has ended"))
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		half := 0
		if done.n.Load() > int64(r.Letters/2) {
			half = 1
		}
		r.Heap[half] = max(r.Heap[half], int(m.HeapAlloc))
	}
}

// windows finds the fewest and the most letters in whole windows.
func (r *inboxRedriven) windows(at []time.Time) {
	var counts []float64
	for _, t := range at {
		w := int(t.Sub(at[0]) / redriveWindow)
		for len(counts) <= w {
			counts = append(counts, 0)
		}
		counts[w] += 1 / redriveWindow.Seconds()
	}
	if len(counts) < 2 {
		return
	}
	counts = counts[:len(counts)-1] // the last window is not complete
	r.Least, r.Most = slices.Min(counts), slices.Max(counts)
}

func (r *inboxRedriven) write(p printer) {
	p("\n### Redrive\n")
	p("%s dead letters, one process, %.0f a second asked for; the handler has one statement. The rate counts from the call to the last letter.\n", thousands(int64(r.Letters)), r.Rate)
	p("| | here | bar | |")
	p("|---|---|---|---|")
	p("| letters a second | **%.1f**, in ten seconds %.0f to %.0f | within %.0f %% | %s |", r.Kept, r.Least, r.Most, redriveTolerance*100, word(r.Within))
	p("| most heap in the first and in the second half | %.1f and %.1f MiB | flat | %s |", float64(r.Heap[0])/(1<<20), float64(r.Heap[1])/(1<<20), word(r.Flat))
}
