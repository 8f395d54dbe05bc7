package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// isolationFigures are the bars that are no delay of the healthy topic.
func (b *bench) isolationFigures(ctx context.Context, f *relayField, n *isolation) (list []isolationBar, err error) {
	for _, measure := range []func(context.Context, *relayField, *isolation) (isolationBar, error){lateCommit, rateOfBacklog, coldStart, resumed} {
		var bars []isolationBar
		for range 3 {
			bar, err := measure(ctx, f, n)
			if err != nil {
				return nil, err
			}
			bars = append(bars, bar)
		}
		list = append(list, medianBar(bars))
	}
	return list, nil
}

// medianBar is the run in the middle: of three, that which is as good as at least one other.
func medianBar(bars []isolationBar) isolationBar {
	held := 0
	values := make([]string, len(bars))
	for i, b := range bars {
		if b.Holds {
			held++
		}
		values[i] = b.Value
	}
	return isolationBar{bars[0].Name, strings.Join(values, ", "), bars[0].Bar, held*2 > len(bars)}
}

// lateCommit is how long a transaction waits that commits after later ids were delivered, while 300 topics are down.
func lateCommit(ctx context.Context, f *relayField, n *isolation) (bar isolationBar, err error) {
	bar = isolationBar{Name: "a late commit while 300 topics are down, until it is published", Bar: "<= 1 s"}
	if err := errors.Join(f.tidy(ctx), backlogOf(300, "down", 200/n.Scale, 10)(ctx, f.pool)); err != nil {
		return bar, err
	}
	late := make(chan struct{})
	to := newHealthy(func(topic string, messages []message.Message, over <-chan struct{}) []error {
		if topic == "late" {
			close(late)
		}
		return isDown(topic, messages, over)
	}, healthyRate*3*time.Second)
	stop, err := f.relayInTrouble(ctx, outbox.RelayConfig{}, to)
	if err != nil {
		return bar, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	tx, err := f.pool.Begin(ctx)
	if err != nil {
		return bar, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := addLate(ctx, tx); err != nil {
		return bar, err
	}
	if err := to.write(ctx, f); err != nil {
		return bar, err
	}
	_, undelivered := to.result(ctx)
	began := time.Now()
	if err := tx.Commit(ctx); err != nil {
		return bar, err
	}
	select {
	case <-late:
		took := time.Since(began)
		bar.Value, bar.Holds = millis(took), took <= time.Second && undelivered == 0
	case <-time.After(15 * time.Second):
		bar.Value = "not in 15 s"
	}
	return bar, nil
}

// addLate adds a message at once: its id is drawn now.
func addLate(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 values (7, 'late', '', null, gen_random_uuid(), 'late', 'once', '', '', false, '')`)
	return err
}

// rateOfBacklog is what a topic with a rate gets from a backlog, once the burst is over.
func rateOfBacklog(ctx context.Context, f *relayField, n *isolation) (isolationBar, error) {
	waiting := 400_000 / n.Scale
	bar := isolationBar{Name: fmt.Sprintf("Rate 500, %s messages wait: messages a second", thousands(int64(waiting))), Bar: "475 to 500, and 2 %"}
	r, err := f.beside(ctx, trouble{
		name: bar.Name, fill: backlogOf(1, "limited", waiting, 1000),
		config: outbox.RelayConfig{Topics: map[string]outbox.TopicConfig{"limited0": {Rate: 500}}},
	}, n.Window)
	if err != nil {
		return bar, err
	}
	perSecond := float64(r.after) / r.took.Seconds()
	bar.Value, bar.Holds = fmt.Sprintf("%.0f", perSecond), perSecond >= 475 && perSecond <= 510
	return bar, nil
}

// coldStart is how long a relay needs from its start to the first healthy delivery.
func coldStart(ctx context.Context, f *relayField, n *isolation) (bar isolationBar, err error) {
	parked := 800_000 / n.Scale
	bar = isolationBar{Name: fmt.Sprintf("start with %s messages of topics that are down: until the first healthy delivery", thousands(int64(parked))), Bar: "<= 1 s"}
	if err := errors.Join(f.tidy(ctx), backlogOf(2, "down", parked/2, 1000)(ctx, f.pool)); err != nil {
		return bar, err
	}
	if _, err := f.pool.Exec(ctx, "analyze once_outbox"); err != nil {
		return bar, err
	}
	if err := f.addHealthy(ctx); err != nil {
		return bar, err
	}
	to := newHealthy(isDown, healthyRate*time.Second)
	began := time.Now()
	stop, err := f.relayInTrouble(ctx, outbox.RelayConfig{}, to)
	if err != nil {
		return bar, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	select {
	case <-to.first:
		took := time.Since(began)
		bar.Value, bar.Holds = millis(took), took <= time.Second
	case <-time.After(time.Minute):
		bar.Value = "not in a minute"
	}
	return bar, nil
}

// resumed is how fast the backlog of a paused topic drains, against one that was not paused.
func resumed(ctx context.Context, f *relayField, n *isolation) (isolationBar, error) {
	backlog := 400_000 / n.Scale
	bar := isolationBar{Name: thousands(int64(backlog)) + " messages of a topic that is resumed, against a new backlog: messages a second", Bar: ">= 0.7"}
	drain := func(pause bool) (time.Duration, error) {
		if err := f.tidy(ctx); err != nil {
			return 0, err
		}
		if pause {
			if err := f.box.Pause(ctx, "backlog0", "", "bench"); err != nil {
				return 0, err
			}
		}
		if err := backlogOf(1, "backlog", backlog, 1000)(ctx, f.pool); err != nil {
			return 0, err
		}
		if _, err := f.pool.Exec(ctx, "analyze once_outbox"); err != nil {
			return 0, err
		}
		d := newDrained(backlog)
		stop, err := f.relayInTrouble(ctx, outbox.RelayConfig{}, d)
		if err == nil && pause {
			sleep(ctx, 2*time.Second)
			_, err = f.box.Resume(ctx, "backlog0", "")
		}
		if err != nil {
			return 0, err
		}
		took, err := d.wait(ctx)
		return took, errors.Join(err, stop())
	}
	fresh, err := drain(false)
	if err != nil {
		return bar, err
	}
	again, err := drain(true)
	if err != nil {
		return bar, err
	}
	ratio := fresh.Seconds() / again.Seconds()
	bar.Value, bar.Holds = fmt.Sprintf("%.2f", ratio), ratio >= 0.7
	return bar, nil
}

// drained is a destination that takes everything, and measures from the first message to the last one.
type drained struct {
	left  atomic.Int64
	began atomic.Pointer[time.Time]
	ended chan time.Duration
}

func newDrained(messages int) *drained {
	d := &drained{ended: make(chan time.Duration, 1)}
	d.left.Store(int64(messages))
	return d
}

// Publish implements outbox.Publisher.
func (d *drained) Publish(_ context.Context, messages []message.Message) []error {
	now := time.Now()
	d.began.CompareAndSwap(nil, &now)
	if left := d.left.Add(-int64(len(messages))); left <= 0 && left > -int64(len(messages)) {
		d.ended <- time.Since(*d.began.Load())
	}
	return nil
}

func (d *drained) wait(ctx context.Context) (time.Duration, error) {
	select {
	case took := <-d.ended:
		return took, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(5 * time.Minute):
		return 0, fmt.Errorf("%d messages have not arrived", d.left.Load())
	}
}
