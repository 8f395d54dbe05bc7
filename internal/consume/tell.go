package consume

import (
	"context"
	"time"

	"github.com/oncelib/once/inbox"
)

const (
	tellEvery = 10 * time.Second

	// tellAfter is how long a ready message may wait for a handler before the log says so.
	tellAfter = time.Minute
)

// Backlog returns the messages in the pool, and the paused partitions by Config.Paused.
func (p *Pool) Backlog() (b inbox.Backlog) {
	if p.cfg.Paused != nil {
		b.Paused, b.PausedOldest = p.cfg.Paused()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range p.held {
		count, oldest := &b.Ready, &b.ReadyOldest
		switch s := d.line; {
		// A handler has it, so it does not wait.
		case d.inHand:
			continue
		case d.class != healthy, s.held, s.slow, p.backlog.suspects.has(d):
			count, oldest = &b.Postponed, &b.PostponedOldest
		}
		*count++
		*oldest = oldest.Older(inbox.Waiting{Source: d.Message.Source, Topic: d.Message.Topic, Key: d.Message.Key, Since: d.since})
	}
	return b
}

// tell logs that messages wait for a long time, or that handlers hang, until ctx ends. It logs each such period once.
func (p *Pool) tell(ctx context.Context) {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	waits, hangs := false, false
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case now = <-ticker.C:
		}
		oldest := p.Backlog().ReadyOldest
		was := waits
		if waits = !oldest.Since.IsZero() && now.Sub(oldest.Since) > tellAfter; waits && !was {
			p.cfg.Log.Warn("once: consumer: a message waits for a long time, because all handlers are busy. Try: check why the handlers are slow, or set a larger Concurrency",
				"source", oldest.Source, "topic", oldest.Topic, "key", oldest.Key, "since", oldest.Since)
		}
		n := p.sink.Hanging()
		was = hangs
		if hangs = n >= max(1, p.cfg.Concurrency/2); hangs && !was {
			p.cfg.Log.Error("once: consumer: handlers that do not return occupy half of Config.Concurrency. Try: restart this process, and make the handlers return when their context ends",
				"hanging", n, "concurrency", p.cfg.Concurrency)
		}
	}
}
