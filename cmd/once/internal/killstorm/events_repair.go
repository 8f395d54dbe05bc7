package killstorm

import (
	"context"
	"fmt"

	"github.com/oncelib/once/deadletter"
)

// The consumers of the receiver.
const (
	bookingsConsumer = "bookings"
	latestConsumer   = "latest"
)

// Defect returns the amount of the refund that the receiver cannot book. It is chosen so that later refunds of its charge follow, if there are
// enough refunds, but not more than the receiver can park.
func (cfg EventsConfig) Defect() int64 {
	const mostBehind = 200 // refunds, of all charges
	return firstAmount + int64(max(0, min(cfg.Orders/2, cfg.Orders-charges-1), cfg.Orders-mostBehind))
}

// parked asks the witness whether the receiver has parked an event.
func (s *Events) parked(ctx context.Context, event string) (bool, error) {
	is, err := s.Witness.parked(ctx, event)
	if is {
		s.told.park(event)
	}
	return is, err
}

// receive runs after all events are in the stream: first all are booked except the events that a dead letter blocks, then the receiver is repaired, the
// dead letter is redriven, and an old event comes again.
func (s *Events) receive(ctx context.Context, wanted map[string]bool) (got received, err error) {
	if err := s.forwarder.flush(ctx); err != nil {
		return got, err
	}
	if err := s.awaitBlocked(ctx, len(wanted)); err != nil {
		return got, err
	}
	s.enter("repairing")
	if err := s.repair(ctx); err != nil {
		return got, err
	}
	if err := s.awaitBooked(ctx, len(wanted)); err != nil {
		return got, err
	}
	s.enter("repeating")
	if err := s.awaitAcknowledged(ctx); err != nil {
		return got, err
	}
	if err := s.forwarder.send(ctx, s.forwarder.old); err != nil {
		return got, err
	}
	if err := s.awaitAcknowledged(ctx); err != nil {
		return got, err
	}
	if err := s.Receiver.kill(); err != nil { // afterwards its log is complete
		return got, err
	}
	return s.received(ctx, wanted)
}

// countLetters returns the number of dead letters of the storm in a state, and one of them.
func (s *Events) countLetters(ctx context.Context, state deadletter.State) (n int, one deadletter.Letter, err error) {
	filter := s.filter()
	filter.State = state
	list, _, err := s.letters.List(ctx, filter)
	if err != nil {
		return 0, one, fmt.Errorf("look for the dead letter: %w", err)
	}
	if len(list) > 0 {
		one = list[0]
	}
	return len(list), one, nil
}

func (s *Events) filter() deadletter.Filter {
	return deadletter.Filter{Consumer: bookingsConsumer, Key: s.charge[(s.Defect()-firstAmount)%charges]}
}

// awaitBlocked waits until a dead letter exists, and all events that it does not block are booked.
func (s *Events) awaitBlocked(ctx context.Context, events int) error {
	return until(ctx, func(ctx context.Context) (int, bool, error) {
		letters, l, err := s.countLetters(ctx, deadletter.StateDead)
		if err != nil {
			return 0, false, err
		}
		n, err := s.Witness.booked(ctx, s.Tenant)
		if letters == 0 || err != nil {
			return n, false, err
		}
		s.behind = int(s.forwarder.last[refundsSubject+" "+l.Key] - l.Seq)
		return n, n >= events-1-s.behind, nil
	})
}

// repair starts a receiver that can book everything, and redrives the dead letter.
func (s *Events) repair(ctx context.Context) error {
	if err := s.Receiver.kill(); err != nil {
		return err
	}
	s.Fix()
	if err := s.Receiver.start(ctx); err != nil {
		return err
	}
	_, err := s.letters.Redrive(ctx, s.filter(), deadletter.RedriveOptions{Who: "once demo events", Reason: "the receiver is repaired"})
	if err != nil {
		return fmt.Errorf("redrive the dead letter: %w", err)
	}
	return nil
}

func (s *Events) awaitBooked(ctx context.Context, events int) error {
	return until(ctx, func(ctx context.Context) (int, bool, error) {
		n, err := s.Witness.booked(ctx, s.Tenant)
		return n, n >= events, err
	})
}

// awaitAcknowledged waits until the receiver has acknowledged every message.
func (s *Events) awaitAcknowledged(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) (uint64, bool, error) {
		n, all, err := s.consumer.streams.Handled(ctx, bookingsConsumer, latestConsumer)
		if err != nil {
			return n, false, fmt.Errorf("read how many messages the receiver has acknowledged: %w", err)
		}
		return n, all, nil
	})
}

// received reads from the database what the receiver has at the end.
func (s *Events) received(ctx context.Context, wanted map[string]bool) (got received, err error) {
	list, err := s.Witness.bookings(ctx, s.Tenant)
	if err != nil {
		return got, fmt.Errorf("the check of the database has failed: %w", err)
	}
	got.applied = check(list, wanted)
	dead, _, err := s.countLetters(ctx, deadletter.StateDead)
	if err != nil {
		return got, err
	}
	if got.redriven, _, err = s.countLetters(ctx, deadletter.StateApplied); err != nil {
		return got, err
	}
	got.deadLettered = dead + got.redriven
	if got.unbalanced, err = s.Witness.unbalanced(ctx, s.Tenant); err != nil {
		return got, err
	}
	if got.outdated, err = s.Witness.outdated(ctx, s.Tenant); err != nil {
		return got, err
	}
	s.Log.inbox(list, s.told)
	return got, nil
}
