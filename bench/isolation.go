package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/pgxstore"
)

// A healthy topic, while other topics are in trouble, through one relay on PostgreSQL.

// isolation has the results of the section.
type isolation struct {
	Rounds  int            `json:"rounds"`
	Window  time.Duration  `json:"window_ns"`
	Scale   int            `json:"scale"` // backlogs are divided by it
	Alone   delayed        `json:"alone"`
	Beside  []neighbored   `json:"beside"`
	Figures []isolationBar `json:"figures"`
}

// neighbored has the results of the healthy topic in one scenario: medians of the rounds.
type neighbored struct {
	delayed

	Ratio       float64 `json:"ratio"` // p99, divided by the p99 of the same round without trouble
	Undelivered int     `json:"undelivered"`
	Bar         string  `json:"bar"`
	Holds       bool    `json:"holds"`
}

// isolationBar is a single figure.
type isolationBar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bar   string `json:"bar"`
	Holds bool   `json:"holds"`
}

const (
	healthyTopic = "healthy"
	healthyRate  = 50 // messages a second
)

func (b *bench) isolation(ctx context.Context) (*isolation, error) {
	n := &isolation{Rounds: 5, Window: 5 * time.Second, Scale: 1}
	if b.quick {
		n.Rounds, n.Window, n.Scale = 3, 2*time.Second, 10
	}
	f, err := b.openRelayField(ctx)
	if err != nil {
		return nil, err
	}
	defer f.pool.Close()
	list := append([]trouble{{name: "alone"}}, troubles(n.Scale)...)
	p50, p99, undelivered := make([][]float64, len(list)), make([][]float64, len(list)), make([]int, len(list))
	for round := range n.Rounds {
		fmt.Fprintf(os.Stderr, "bench: isolation, round %d of %d\n", round+1, n.Rounds)
		for _, i := range rand.Perm(len(list)) {
			run, err := f.beside(ctx, list[i], n.Window)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list[i].name, err)
			}
			p50[i] = append(p50[i], percentile(run.delays, 50))
			p99[i] = append(p99[i], percentile(run.delays, 99))
			undelivered[i] += run.undelivered
		}
	}
	row := func(i int) delayed {
		middle, _, _ := spread(p50[i])
		high, _, _ := spread(p99[i])
		return delayed{list[i].name, time.Duration(middle), time.Duration(high)}
	}
	n.Alone = row(0)
	for i := 1; i < len(list); i++ {
		r := neighbored{delayed: row(i), Undelivered: undelivered[i], Bar: "<= 1.5x or alone + 15 ms"}
		var ratios []float64
		for round, alone := range p99[0] {
			ratios = append(ratios, p99[i][round]/alone)
		}
		r.Ratio, _, _ = spread(ratios)
		r.Holds = r.Undelivered == 0 && (r.Ratio <= 1.5 || r.P99 <= n.Alone.P99+15*time.Millisecond)
		if most := list[i].most; most > 0 {
			r.Bar = "p99 <= " + most.String()
			r.Holds = r.Undelivered == 0 && r.P99 <= most
		}
		n.Beside = append(n.Beside, r)
	}
	n.Figures, err = b.isolationFigures(ctx, f, n)
	return n, err
}

// besideRun is the result of one window.
type besideRun struct {
	delays      []time.Duration
	undelivered int
	after       int           // messages of other topics that were delivered in the window
	took        time.Duration // the window
}

// beside delivers the healthy topic for a window while t is in trouble.
func (f *relayField) beside(ctx context.Context, t trouble, window time.Duration) (r besideRun, err error) {
	if err := f.tidy(ctx); err != nil {
		return r, err
	}
	if err := f.addHealthy(ctx); err != nil { // a topic without any answer so far counts as one that may hang
		return r, err
	}
	if t.fill != nil {
		if err := t.fill(ctx, f.pool); err != nil {
			return r, err
		}
	}
	if _, err := f.pool.Exec(ctx, "analyze once_outbox"); err != nil {
		return r, err
	}
	to := newHealthy(t.answer, healthyRate*window)
	stop, err := f.relayInTrouble(ctx, t.config, to)
	if err != nil {
		return r, err
	}
	select {
	case <-to.first:
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
	sleep(ctx, 500*time.Millisecond) // the trouble begins
	sleep(ctx, t.burst)
	others, began := to.others.Load(), time.Now()
	err = to.write(ctx, f)
	r.after, r.took = int(to.others.Load()-others), time.Since(began)
	r.delays, r.undelivered = to.result(ctx)
	close(to.over)
	return r, errors.Join(err, stop())
}

// addHealthy adds a healthy message that does not count.
func (f *relayField) addHealthy(ctx context.Context) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		return f.box.Add(ctx, tx, message.Message{Topic: healthyTopic, Type: outboxEventType, Payload: []byte("first")})
	})
}

// relayInTrouble runs a relay until stop is called. Failures of its topics are not errors of the benchmark.
func (f *relayField) relayInTrouble(ctx context.Context, cfg outbox.RelayConfig, to outbox.Publisher) (stop func() error, err error) {
	return consume(ctx, func(ctx context.Context, p outbox.Publisher, began func()) error {
		cfg.Observer = relayObserver(func(e outbox.Event) {
			if e.Type == outbox.EventTaken {
				began()
			}
		})
		return outbox.New(pgxstore.New(f.pool, pgxstore.Config{}), outbox.Config{}).Relay(p, cfg).Run(ctx)
	}, to)
}

// write adds a healthy message at each fixed moment, on a connection of its own, without waking the relay.
func (h *healthy) write(ctx context.Context, f *relayField) error {
	conn, err := pgx.ConnectConfig(ctx, f.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	start := time.Now()
	for n := range h.committed {
		sleep(ctx, time.Until(start.Add(time.Duration(n)*time.Second/healthyRate)))
		payload := make([]byte, 200)
		binary.BigEndian.PutUint64(payload, uint64(n))
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			return f.box.Add(ctx, tx, message.Message{Topic: healthyTopic, Key: account(), Type: outboxEventType, Payload: payload})
		})
		if err != nil {
			return err
		}
		h.note(h.committed, n)
	}
	return nil
}

// result waits for a moment for missing messages, and returns the delays, sorted. A message that has not arrived counts with the time that it has
// waited.
func (h *healthy) result(ctx context.Context) (list []time.Duration, undelivered int) {
	select {
	case <-h.all:
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, at := range h.committed {
		arrived := h.arrived[n]
		if arrived == 0 {
			undelivered++
			arrived = time.Since(h.began)
		}
		list = append(list, max(0, arrived-at))
	}
	slices.Sort(list)
	return list, undelivered
}

func newHealthy(answer func(topic string, messages []message.Message, over <-chan struct{}) []error, messages time.Duration) *healthy {
	n := int(messages.Seconds())
	return &healthy{answer: answer, began: time.Now(), committed: make([]time.Duration, n), arrived: make([]time.Duration, n), left: n, all: make(chan struct{}), over: make(chan struct{}), first: make(chan struct{})}
}

// Publish implements outbox.Publisher.
func (h *healthy) Publish(_ context.Context, messages []message.Message) []error {
	if topic := messages[0].Topic; topic != healthyTopic {
		var errs []error
		if h.answer != nil {
			errs = h.answer(topic, messages, h.over)
		}
		if errs == nil {
			h.others.Add(int64(len(messages)))
		}
		return errs
	}
	for i := range messages {
		if len(messages[i].Payload) == 200 {
			h.note(h.arrived, int(binary.BigEndian.Uint64(messages[i].Payload)))
		}
	}
	h.once.Do(func() { close(h.first) })
	return nil
}

func (h *healthy) note(list []time.Duration, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n >= len(list) || list[n] != 0 {
		return
	}
	list[n] = time.Since(h.began)
	if &list[0] == &h.arrived[0] {
		if h.left--; h.left == 0 {
			close(h.all)
		}
	}
}

func (n *isolation) write(p printer) {
	p("\n## A healthy topic beside topics in trouble\n")
	p("One relay on PostgreSQL. A healthy topic gets %d messages a second from another connection, so that the relay finds them by polling;", healthyRate)
	p("the delay is from COMMIT to Publish. Each scenario is run in a window of %s in each of %d rounds, in random order with the same", n.Window, n.Rounds)
	p("**alone**; ratios are of one round, and their median counts. Backlogs are divided by %d.\n", n.Scale)
	p("| beside | p50 | p99 | ratio of p99 | not delivered | bar | |")
	p("|---|---|---|---|---|---|---|")
	p("| alone | %s | %s | | | | |", millis(n.Alone.P50), millis(n.Alone.P99))
	for _, r := range n.Beside {
		p("| %s | %s | %s | **%.2f** | %d | %s | %s |", r.Name, millis(r.P50), millis(r.P99), r.Ratio, r.Undelivered, r.Bar, word(r.Holds))
	}
	p("\n| what | measured | bar | |")
	p("|---|---|---|---|")
	for _, r := range n.Figures {
		p("| %s | %s | %s | %s |", r.Name, r.Value, r.Bar, word(r.Holds))
	}
}
