package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/outbox"
)

// relayHotKeys is what writers lose that add to one ordering key: they commit one after the other, and while a snapshot
// is held, the versions of its row pile up.
type relayHotKeys struct {
	Held     time.Duration `json:"held_ns"`
	Figures  []figure      `json:"figures"`
	Verdicts []verdict     `json:"verdicts"`
}

const (
	hotClients  = 16
	nameUniform = "1,000 keys"
	nameHot     = "one key"
)

func (b *bench) relayHotKeys(ctx context.Context, f *relayField) (h relayHotKeys, err error) {
	h.Held = 30 * time.Second
	if b.quick {
		h.Held = 6 * time.Second
	}
	if err := f.tidy(ctx); err != nil {
		return h, err
	}
	run := func(suffix string, slice time.Duration, rounds int) ([]*contestant, error) {
		r := race{hotClients, rounds, slice, b.server.cpu(), []*contestant{
			{name: nameUniform + suffix, run: func(ctx context.Context) error { return f.addTo(ctx, account()) }},
			{name: nameHot + suffix, run: func(ctx context.Context) error { return f.addTo(ctx, "acct_hot") }},
		}}
		return r.field, r.run(ctx)
	}
	field, err := run("", b.slice, min(b.rounds, 20))
	if err != nil {
		return h, err
	}
	release, err := f.holdSnapshot(ctx)
	if err != nil {
		return h, err
	}
	const laps = 20 // as they pile up
	slow, err := run(nameSnapshot, h.Held/laps/2, laps)
	if err = errors.Join(err, release()); err != nil {
		return h, err
	}
	for _, c := range slow { // the last laps
		c.laps = c.laps[laps*3/4:]
	}
	for _, c := range field { // as many
		c.laps = c.laps[len(c.laps)-min(len(c.laps), laps/4):]
	}
	field = append(field, slow...)
	for _, c := range field {
		h.Figures = append(h.Figures, c.figure())
	}
	for _, c := range []comparison{
		{nameHot, nameUniform, 0},
		{nameHot + nameSnapshot, nameUniform + nameSnapshot, 0},
	} {
		h.Verdicts = append(h.Verdicts, judge(field, c))
	}
	return h, nil
}

// addTo is an operation that publishes one event.
func (f *relayField) addTo(ctx context.Context, key string) error {
	o := newOrder()
	r, err := once.Do(ctx, f.engine, newOperation(once.NewKey(), o), func(ctx context.Context, tx pgx.Tx) (receipt, error) {
		r, err := o.place(ctx, tx)
		if err != nil {
			return r, err
		}
		m := outbox.Message{Topic: outboxTopic, Key: key, Type: outboxEventType, Payload: []byte(r.Self)}
		return r, f.box.Add(ctx, tx, m)
	})
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

func (h relayHotKeys) write(p printer) {
	p("\n### A hot key\n")
	p("%d clients run Do + Add, all with one ordering key or with %s. The row of a key is locked until COMMIT: commits of one key", hotClients, nameUniform)
	p("come one after the other. While a snapshot is held, PostgreSQL keeps all versions of that row, and each writer walks over")
	p("them: the last quarter of %s counts. Messages without a key have neither cost.\n", h.Held)
	writeVerdicts(p, h.Verdicts)
	p("\n| per operation here | CPU client | CPU server | operations a second |")
	p("|---|---|---|---|")
	for _, f := range h.Figures {
		p("| %s | %.0f µs | %.0f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
	}
}
