package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oncelib/once"
)

// sufferer is what a process has to say that has insisted on an operation, and then on
// another one, while something happened to it.
type sufferer struct {
	Keys    []string
	Got     []answer
	Denied  []string
	Doubted int
	Opened  int // times that the store was opened, or not
	Renewed int // times that it was closed, because asking again did not help
	Longest time.Duration
	Told    string
}

// constancy is how often a client asks before it does what an operator does: he closes the
// store and opens it again.
const constancy = 4

// retryUntilAnswered asks until there are answers, and prints what it was told on the way.
func retryUntilAnswered(ctx context.Context, p plan) error {
	said := sufferer{Keys: []string{p.Key, p.Key + "-next"}}
	s, err := said.open(ctx, p)
	for i := 0; i < len(said.Keys) && err == nil; i++ {
		c := &client{s: s, name: fmt.Sprint(p.Attempt, i), op: operation(said.Keys[i])}
		for tries := 1; len(said.Got) == i && err == nil; tries++ {
			if err = said.ask(ctx, c); err == nil && len(said.Got) == i && tries%constancy == 0 {
				c.s.Close()
				said.Renewed++
				c.s, err = said.open(ctx, p)
			}
		}
		s = c.s
		said.Denied, said.Doubted = append(said.Denied, c.denied...), said.Doubted+c.doubted
	}
	if err != nil {
		return err
	}
	s.Close()
	return json.NewEncoder(os.Stdout).Encode(said)
}

// ask makes an attempt. Its errors are those after which there is no other one.
func (said *sufferer) ask(ctx context.Context, c *client) error {
	began := time.Now()
	got, err := c.ask(ctx)
	said.Longest = max(said.Longest, time.Since(began))
	switch {
	case err == nil:
		said.Got = append(said.Got, got)
		return nil
	case once.CodeOf(err) == "", ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	}
	said.Told = err.Error()
	return nil
}

func (said *sufferer) open(ctx context.Context, p plan) (s system, err error) {
	for {
		said.Opened++
		if s, err = stores[p.Store](ctx, setup{dsn: p.DSN, conns: 2}); err == nil || ctx.Err() != nil {
			return s, err
		}
		said.Told = err.Error()
	}
}
