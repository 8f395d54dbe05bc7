package killstorm

import (
	"context"
	"time"
)

// crash sends o by clients that are killed after they have sent it. Their next processes resume it.
func (s *Storm) crash(ctx context.Context, o *order) {
	for sender, killed := 1<<3, 0; killed < o.crashes && ctx.Err() == nil; sender++ {
		if s.ask(ctx, o, sender, true, o.body(), "") { // false: another kill has killed the client first
			killed++
		}
	}
}

// ask requests an order, and reports whether a client was killed, which happens only if the order is doomed.
func (s *Storm) ask(ctx context.Context, o *order, sender int, doomed bool, body, notes string) (killed bool) {
	f, err := s.send(ctx, o, job{Sender: sender, Fated: true, Doomed: doomed, Body: body}, notes)
	return err == nil && f.fatal
}

// replay requests an answered order one more time, without faults of the network.
func (s *Storm) replay(ctx context.Context, o *order) {
	f, err := s.send(ctx, o, job{Sender: 1 << 4, Body: o.body()}, "after the storm")
	if err == nil && judge(*f.answer, nil).word != replayed {
		s.tally.differ(o)
	}
}

func (s *Storm) send(ctx context.Context, o *order, j job, notes string) (*flight, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errGaveUp)
	defer cancel()
	j.Key, j.Path, j.Order = o.key, refundsPath, o.index
	f, err := s.Fleet.ask(ctx, j)
	var a answer
	if err == nil {
		a, notes = *f.answer, join(notes, f.notes)
	}
	s.learn(o, j.Body, a, err, notes)
	return f, err
}
