package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncelib/once"
)

// client insists on one operation, and remembers what it was told on the way.
type client struct {
	s     system
	name  string // begins its attempts
	flow  string
	op    once.Operation
	like  work   // what its attempts have in common
	first func() // runs in the handler of the first attempt, at the end of its writes

	denied  []string // attempts of which it was said that they are not applied
	doubted int      // attempts that may have been applied or not
}

// ask makes one attempt.
func (c *client) ask(ctx context.Context) (answer, error) {
	w := c.like
	w.key, w.attempt = c.op.Key, fmt.Sprintf("%s-%d", c.name, len(c.denied)+c.doubted)
	if f := c.first; f != nil {
		c.first = nil
		w.before = once0(f)
	}
	got, err := run(ctx, c.s, c.flow, c.op, w)
	switch {
	case err == nil:
		return got, nil
	case once.CodeOf(err) == "":
		return got, fmt.Errorf("an error without a code: %w", err)
	case once.EffectOf(err) == once.EffectNotApplied:
		c.denied = append(c.denied, w.attempt)
	case once.EffectOf(err) == once.EffectApplied:
		return got, fmt.Errorf("applied, but no answer: %w", err)
	default:
		c.doubted++
	}
	return got, err
}

// once0 lets f run once: a handler may run again.
func once0(f func()) func() {
	return func() {
		if f != nil {
			f()
			f = nil
		}
	}
}

// insist asks until there is an answer.
func (c *client) insist(ctx context.Context) (answer, error) {
	for {
		got, err := c.ask(ctx)
		switch {
		case err == nil:
			return got, nil
		case once.CodeOf(err) == "", ctx.Err() != nil:
			return got, errors.Join(err, ctx.Err())
		}
	}
}

// truthful checks what a client was told against what the database holds in the end.
func (g *testDB) truthful(ctx context.Context, c *client, got answer) error {
	s, err := g.state(ctx, c.op.Key)
	if err != nil {
		return err
	}
	want := executed(got.Attempt)
	if c.flow == flowFailure {
		want = declined()
	}
	if s != want {
		return fmt.Errorf("key %s, answer %+v: the database has %+v, want %+v", c.op.Key, got, s, want)
	}
	for _, attempt := range append(strings.Split(s.Attempts, ","), got.Attempt) {
		if slices.Contains(c.denied, attempt) {
			return fmt.Errorf("key %s: attempt %s was said not to be applied, but it is", c.op.Key, attempt)
		}
	}
	return nil
}
