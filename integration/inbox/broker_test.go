package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
)

// broker delivers messages until they are acknowledged.
type broker struct {
	unacked []message.Message
	batch   int             // how many are delivered at once
	acked   func(id string) // called for each
}

// deliver delivers every message until it is acknowledged, in its order, which begins again after each round.
func deliver[TX any](ctx context.Context, b *broker, in *inbox.Inbox[TX], fn inbox.Handler[TX]) error {
	for end := time.Now().Add(patience); len(b.unacked) > 0; {
		if time.Now().After(end) {
			return fmt.Errorf("%d messages are never acknowledged", len(b.unacked))
		}
		var again []message.Message
		for rest := b.unacked; len(rest) > 0; {
			n := min(b.batch, len(rest))
			var results []inbox.Result
			if n == 1 {
				o, err := in.Handle(ctx, rest[0], fn)
				results = []inbox.Result{{Outcome: o, Err: err}}
			} else {
				results = in.HandleBatch(ctx, rest[:n], fn)
			}
			for i, r := range results {
				if r.Err == nil {
					if b.acked != nil {
						b.acked(rest[i].ID)
					}
					continue
				}
				m := rest[i]
				m.Delivery = max(m.Delivery, 1) + 1
				again = append(again, m)
			}
			rest = rest[n:]
		}
		b.unacked = again
	}
	return nil
}

// scenario is messages in an order in which a broker may deliver them. Two of them are broken.
func scenario(order inbox.Order) (messages []message.Message, broken []string) {
	messages = []message.Message{ordered("a", 1), event("x"), ordered("b", 2), ordered("a", 2), ordered("b", 1), event("poison"), ordered("a", 3), event("x"), ordered("a", 4), ordered("b", 3), ordered("b", 2)}
	if order == inbox.LatestVersion { // what comes late is not applied
		messages = slices.DeleteFunc(messages, func(m message.Message) bool { return m.Key == "b" })
	}
	return messages, []string{"poison", "a-3"}
}

// expected are the events that are applied in the end, each once.
func expected(order inbox.Order) []string {
	if order == inbox.LatestVersion { // a-3 is a dead letter, and too old when it is redriven
		return []string{"a-1", "a-2", "a-4", "poison", "x"}
	}
	return []string{"a-1", "a-2", "a-3", "a-4", "b-1", "b-2", "b-3", "poison", "x"}
}

// brokenUntil fails for these messages until fixed.
func (g *fixture[TX]) brokenUntil(ids []string, fixed *bool) inbox.Handler[TX] {
	return func(ctx context.Context, tx TX, m message.Message) error {
		if err := g.book(ctx, tx, m); err != nil {
			return err
		}
		if !*fixed && slices.Contains(ids, m.ID) {
			return fmt.Errorf("%s: %w", m.ID, errRefused)
		}
		return nil
	}
}
