package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// relayDelay is how long a message waits from its commit to Publish.
type relayDelay struct {
	Rounds   int           `json:"rounds"`
	Window   time.Duration `json:"window_ns"`
	Held     time.Duration `json:"held_ns"` // the snapshot, at the end of the last window
	Rows     []delayed     `json:"rows"`
	Verdicts []verdict     `json:"verdicts"` // of p99
	Medians  []verdict     `json:"medians"`  // of p50
}

// delayed is the median of the rounds.
type delayed struct {
	Name string        `json:"name"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
}

const (
	delayRate    = 1000 // messages per second
	delayWriters = 8
	nameWoken    = "relay, woken by the commit"
	nameTwice    = ", two reads"
	nameSnapshot = ", snapshot held"
)

// delayer is one way to deliver messages as they come.
type delayer struct {
	*contestant // the wall time of a lap is the p99 of a round

	consumer func(made func(*outbox.Relay)) consumer
	woken    bool // by the observer
	held     bool
	p50      []float64
}

func (b *bench) relayDelay(ctx context.Context, f *relayField) (d relayDelay, err error) {
	d = relayDelay{Rounds: 5, Window: 5 * time.Second, Held: 45 * time.Second}
	if b.quick {
		d = relayDelay{Rounds: 5, Window: 2 * time.Second, Held: 8 * time.Second}
	}
	raw := func(func(*outbox.Relay)) consumer { return f.rawLoop(false, nil) }
	twice := func(func(*outbox.Relay)) consumer { return f.rawLoop(true, nil) }
	relay := func(made func(*outbox.Relay)) consumer { return f.relayBy(0, 0, nil, made) }
	list := []*delayer{
		{contestant: &contestant{name: nameRawLoop}, consumer: raw},
		{contestant: &contestant{name: nameRawLoop + nameTwice}, consumer: twice},
		{contestant: &contestant{name: nameRelay}, consumer: relay},
		{contestant: &contestant{name: nameWoken}, consumer: relay, woken: true},
		{contestant: &contestant{name: nameRawLoop + nameSnapshot}, consumer: raw, held: true},
		{contestant: &contestant{name: nameRelay + nameSnapshot}, consumer: relay, held: true},
	}
	for round := range d.Rounds {
		fmt.Fprintf(os.Stderr, "bench: delay, round %d of %d\n", round+1, d.Rounds)
		for _, i := range rand.Perm(len(list)) {
			if list[i].name == nameRawLoop+nameSnapshot && round >= 2 { // without a bar, and slow
				continue
			}
			if err := list[i].round(ctx, f, d); err != nil {
				return d, fmt.Errorf("%s: %w", list[i].name, err)
			}
		}
	}
	var field []*contestant
	for _, c := range list {
		field = append(field, c.contestant)
		p50, _, _ := spread(c.p50)
		p99 := 1 / c.figure().PerSecond
		d.Rows = append(d.Rows, delayed{c.name, time.Duration(p50), time.Duration(p99 * float64(time.Second))})
	}
	for _, c := range []comparison{
		{nameRelay, nameRawLoop, 1.5},
		{nameWoken, nameRawLoop, 1.5},
		{nameRelay + nameSnapshot, nameRelay, 1.5},
	} {
		v := judge(field, comparison{c.under, c.over, c.bar}) // of delays, not of speeds
		v.What, v.AtMost = c.over+" / "+c.under, true
		d.Verdicts = append(d.Verdicts, v.judged())
	}
	for _, over := range []*delayer{list[1], list[2], list[3]} {
		var ratios []float64
		for i, p50 := range over.p50 {
			ratios = append(ratios, p50/list[0].p50[i])
		}
		v := verdict{What: over.name + " / " + list[0].name, Bar: 1.3, AtMost: true}
		if over == list[1] {
			v.Bar = 0 // without a bar
		}
		v.Median, v.Min, v.Max = spread(ratios)
		d.Medians = append(d.Medians, v.judged())
	}
	return d, nil
}

// round delivers messages for a while, and measures the last window.
func (c *delayer) round(ctx context.Context, f *relayField, d relayDelay) (err error) {
	if err := f.tidy(ctx); err != nil {
		return err
	}
	before := time.Second // statement caches, and the first messages of all keys
	if c.held {
		before = d.Held - d.Window
		release, err := f.holdSnapshot(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	t := newTraffic(before + d.Window)
	var relay atomic.Pointer[outbox.Relay]
	stop, err := consume(ctx, c.consumer(relay.Store), t.publisher())
	if err != nil {
		return err
	}
	var woken func()
	if c.woken {
		woken = func() {
			relay.Load().Wake()
		}
	}
	err = t.write(ctx, f, woken)
	if err == nil {
		err = t.delivered(ctx)
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	delays := t.delays(int(before.Seconds() * delayRate))
	c.p50 = append(c.p50, percentile(delays, 50))
	c.laps = append(c.laps, lap{wall: time.Duration(percentile(delays, 99))})
	return nil
}

// holdSnapshot opens a transaction that sees everything as it is now, on a connection of its own. VACUUM and the servers' own cleaning keep the rows
// that it sees.
func (f *relayField) holdSnapshot(ctx context.Context) (release func() error, err error) {
	conn, err := pgx.ConnectConfig(ctx, f.pool.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	release = func() error { return conn.Close(context.WithoutCancel(ctx)) }
	for _, s := range []string{"begin isolation level repeatable read", "select 1"} {
		if _, err := conn.Exec(ctx, s); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

// traffic is a list of messages that are due at fixed moments.
type traffic struct {
	began              time.Time
	committed, arrived []atomic.Int64 // since began, in nanoseconds; 0 before
	missing            atomic.Int64
	all                chan struct{}
}

func newTraffic(length time.Duration) *traffic {
	n := int(length.Seconds() * delayRate)
	t := &traffic{began: time.Now(), committed: make([]atomic.Int64, n), arrived: make([]atomic.Int64, n), all: make(chan struct{})}
	t.missing.Store(int64(n))
	return t
}

// publisher notes when a message arrives. Its number is in the payload.
func (t *traffic) publisher() outbox.Publisher {
	return outbox.PublisherFunc(func(_ context.Context, messages []message.Message) []error {
		now := int64(time.Since(t.began))
		for i := range messages {
			n := binary.BigEndian.Uint64(messages[i].Payload)
			if t.arrived[n].CompareAndSwap(0, now) && t.missing.Add(-1) == 0 {
				close(t.all)
			}
		}
		return nil
	})
}

// write adds every message when it is due, in a transaction of its own. woken, if it is set, is called after its commit.
func (t *traffic) write(ctx context.Context, f *relayField, woken func()) error {
	var wg sync.WaitGroup
	errs := make([]error, delayWriters)
	start := time.Now()
	for w := range delayWriters {
		wg.Go(func() {
			for n := w; n < len(t.committed) && errs[w] == nil; n += delayWriters {
				sleep(ctx, time.Until(start.Add(time.Duration(n)*time.Second/delayRate)))
				payload := make([]byte, 300)
				binary.BigEndian.PutUint64(payload, uint64(n))
				errs[w] = pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
					return f.box.Add(ctx, tx, message.Message{Topic: outboxTopic, Key: account(), Type: outboxEventType, Payload: payload})
				})
				t.committed[n].Store(int64(time.Since(t.began)))
				if woken != nil {
					woken()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// delivered waits until every message has arrived.
func (t *traffic) delivered(ctx context.Context) error {
	select {
	case <-t.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return fmt.Errorf("%d messages have not arrived", t.missing.Load())
	}
}

// delays are the delays of all messages except the first ones, sorted. A message can arrive before its writer has seen the commit: then its delay is
// zero.
func (t *traffic) delays(first int) (list []time.Duration) {
	for n := first; n < len(t.committed); n++ {
		list = append(list, max(0, time.Duration(t.arrived[n].Load()-t.committed[n].Load())))
	}
	slices.Sort(list)
	return list
}

func (d relayDelay) write(p printer) {
	p("\n### Delay\n")
	p("%s messages a second with %s keys, each in a transaction of its own at a fixed moment. The delay is from the end of COMMIT, as", thousands(delayRate), thousands(outboxAccounts))
	p("its writer sees it, to the call of Publish. The raw loop polls as often as the relay does. With **two reads** it reads the tails of all parts first, as the relay does, and then the messages. A **snapshot** is held by a")
	p("REPEATABLE READ transaction from before the first message on; the last %s of %s count. %d rounds.\n", d.Window, d.Held, d.Rounds)
	p("| p99 of the delay | ratio | bar | |")
	p("|---|---|---|---|")
	for _, v := range d.Verdicts {
		p("| %s | %s |", v.What, v.cells())
	}
	p("\n| p50 of the delay | ratio | bar | |")
	p("|---|---|---|---|")
	for _, v := range d.Medians {
		p("| %s | %s |", v.What, v.cells())
	}
	p("\n| here | p50 | p99 |")
	p("|---|---|---|")
	for _, r := range d.Rows {
		p("| %s | %s | %s |", r.Name, millis(r.P50), millis(r.P99))
	}
}
