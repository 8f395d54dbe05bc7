package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// relayDrain shows how fast a backlog is delivered to a publisher that does nothing.
type relayDrain struct {
	Rounds   int       `json:"rounds"`
	Small    int       `json:"small"`
	Large    int       `json:"large"`
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
}

const (
	nameRawLoop = "raw loop"
	nameRelay   = "relay"
	nameKept    = "relay, Keep"
	nameSingle  = "relay, Concurrency 1"
)

// fillRelay makes a backlog in which the keys take turns.
const fillRelay = `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select i % 64, 'refunds', 'k' || i % 960, i / 960 + 1, gen_random_uuid(), 'refund.succeeded', 'once', '', decode(repeat('61', 200), 'hex'), false, ''
 from generate_series(0, $1::int - 1) i`

// drainer is one way to empty the outbox.
type drainer struct {
	*contestant

	rows     int
	consumer func(f *relayField, done func(int)) consumer // calls done with the number of finished messages
}

func drainers(small, large int) (list []drainer) {
	add := func(name string, rows int, c func(*relayField, func(int)) consumer) {
		list = append(list, drainer{&contestant{name: fmt.Sprintf("%s, %s", name, thousands(int64(rows)))}, rows, c})
	}
	raw := func(f *relayField, done func(int)) consumer { return f.rawLoop(false, done) }
	relay := func(keep time.Duration, calls int) func(*relayField, func(int)) consumer {
		return func(f *relayField, done func(int)) consumer { return f.relayBy(keep, calls, func() { done(1) }, nil) }
	}
	for _, rows := range []int{small, large} {
		add(nameRawLoop, rows, raw)
		add(nameRelay, rows, relay(0, 0))
	}
	add(nameKept, small, relay(time.Hour, 0))
	add(nameSingle, small, relay(0, 1))
	return list
}

func (b *bench) relayDrain(ctx context.Context) (d relayDrain, err error) {
	d = relayDrain{Rounds: 5, Small: 1e5, Large: 1e6}
	if b.quick {
		d = relayDrain{Rounds: 5, Small: 3e4, Large: 1.5e5}
	}
	list := drainers(d.Small, d.Large)
	templates := map[int]string{}
	for _, rows := range []int{d.Small, d.Large} {
		if templates[rows], err = b.backlog(ctx, rows); err != nil {
			return d, err
		}
	}
	for round := range d.Rounds {
		fmt.Fprintf(os.Stderr, "bench: drain, round %d of %d\n", round+1, d.Rounds)
		for _, i := range rand.Perm(len(list)) {
			l, err := b.drainCopy(ctx, templates[list[i].rows], list[i])
			if err != nil {
				return d, fmt.Errorf("%s: %w", list[i].name, err)
			}
			list[i].laps = append(list[i].laps, l)
		}
	}
	var field []*contestant
	for _, c := range list {
		field = append(field, c.contestant)
		d.Figures = append(d.Figures, c.figure())
	}
	small, large := ", "+thousands(int64(d.Small)), ", "+thousands(int64(d.Large))
	for _, c := range []comparison{
		{nameRelay + small, nameRawLoop + small, 0.8},
		{nameRelay + large, nameRawLoop + large, 0.8},
		{nameSingle + small, nameRawLoop + small, 0.8},
		{nameKept + small, nameRawLoop + small, 0.5},
		{nameRelay + large, nameRelay + small, 0.8},
		{nameRawLoop + large, nameRawLoop + small, 0},
	} {
		d.Verdicts = append(d.Verdicts, judge(field, c))
	}
	return d, nil
}

// backlog makes a database with so many messages, which is copied for each drain.
func (b *bench) backlog(ctx context.Context, rows int) (database string, err error) {
	f, err := b.openRelayField(ctx)
	if err != nil {
		return "", err
	}
	defer f.pool.Close()
	if _, err := f.pool.Exec(ctx, fillRelay, rows); err != nil {
		return "", err
	}
	_, err = f.pool.Exec(ctx, "vacuum analyze")
	return f.pool.Config().ConnConfig.Database, err
}

// drainCopy drains a copy of the database, so that the original can be drained again.
func (b *bench) drainCopy(ctx context.Context, template string, d drainer) (l lap, err error) {
	const database = "drained"
	admin, err := b.server.pool(ctx, "postgres", 1, nil)
	if err != nil {
		return l, err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, "create database "+database+" template "+template+" strategy file_copy"); err != nil {
		return l, err
	}
	defer func() {
		_, e := admin.Exec(ctx, "drop database "+database+" with (force)")
		err = errors.Join(err, e)
	}()
	f, err := b.relayFieldOn(ctx, database)
	if err != nil {
		return l, err
	}
	defer f.pool.Close()
	if _, err := f.pool.Exec(ctx, "select count(payload) from once_outbox"); err != nil { // later reads do not come from the disk
		return l, err
	}
	return b.drain(ctx, f, d)
}

// drain measures from the first published message to the last finished one.
func (b *bench) drain(ctx context.Context, f *relayField, d drainer) (l lap, err error) {
	var began time.Time
	var client, server time.Duration
	start := sync.OnceFunc(func() {
		client, server = b.server.cpu().used()
		began = time.Now()
	})
	var left atomic.Int64
	left.Store(int64(d.rows))
	emptied := make(chan struct{})
	nothing := outbox.PublisherFunc(func(context.Context, []message.Message) []error {
		start()
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- d.consumer(f, func(n int) {
			if left.Add(-int64(n)) == 0 {
				close(emptied)
			}
		})(ctx, nothing, func() {})
	}()
	select {
	case <-emptied:
	case err := <-ended:
		return l, fmt.Errorf("ended with %d messages left: %w", left.Load(), err)
	}
	wall := time.Since(began)
	client2, server2 := b.server.cpu().used()
	cancel()
	n := time.Duration(d.rows)
	return lap{wall / n, (client2 - client) / n, (server2 - server) / n, int64(d.rows)}, <-ended
}

func (d relayDrain) write(p printer) {
	p("\n### Drain\n")
	p("A backlog of %s or %s messages with 960 keys goes to a publisher that does nothing. The clock runs from the first message", thousands(int64(d.Small)), thousands(int64(d.Large)))
	p("that is published to the last one that is deleted. The **relay** has its defaults.")
	p("With **Keep**, delivered messages are moved to a table where they stay. %d rounds.\n", d.Rounds)
	writeVerdicts(p, d.Verdicts)
	p("\n| per message here | CPU client | CPU server | messages a second |")
	p("|---|---|---|---|")
	for _, f := range d.Figures {
		p("| %s | %.1f µs | %.1f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
}
