package killstorm

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

const (
	repeatEvery  = 8  // every eighth message is forwarded twice
	reorderEvery = 16 // of every 16 messages of a key, one is forwarded after the next one
	mostReorders = 16 // a limit, because each of them waits for the receiver

	parkPatience = time.Minute
)

// forwarder copies the messages of the relays into the stream of the receiver, like an unreliable network: some twice, under another message ID of
// the broker, and some after the next one.
type forwarder struct {
	to     Streams
	parked func(ctx context.Context, event string) (bool, error) // whether the receiver has parked an event

	mu    sync.Mutex
	queue []EventMessage

	arrived *meter // messages that were added to the queue
	handled *meter // messages that were taken from the queue and forwarded, or are held back

	// Used only by the goroutine that runs the forwarder, and later by its caller.
	last      map[string]int64 // the highest number that has come, by subject and key
	held      map[string]EventMessage
	old       EventMessage // the first message of a key, preferably of a key with later ones
	calm      int          // messages that were forwarded in order
	copies    int
	repeated  int
	reordered int
	deaf      bool // the receiver has parked nothing in time, so no further messages change places
}

func newForwarder(to Streams, parked func(context.Context, string) (bool, error)) *forwarder {
	return &forwarder{to: to, parked: parked, arrived: newMeter(), handled: newMeter(), last: map[string]int64{}, held: map[string]EventMessage{}}
}

// add takes a message of the relays, in the order of their stream.
func (f *forwarder) add(m EventMessage) {
	f.mu.Lock()
	f.queue = append(f.queue, m)
	f.mu.Unlock()
	f.arrived.count()
}

func (f *forwarder) take() EventMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.queue[0]
	f.queue = f.queue[1:]
	return m
}

// run forwards until ctx ends.
func (f *forwarder) run(ctx context.Context) {
	for n := 1; f.arrived.wait(ctx, n, forever); n++ {
		if f.forward(ctx, f.take()) != nil {
			return
		}
		f.handled.count()
	}
}

// forward forwards a message, unless it holds it back.
func (f *forwarder) forward(ctx context.Context, m EventMessage) error {
	key, seq := m.Subject+" "+m.Header["ce-partitionkey"], m.sequence()
	if f.old.Subject == "" {
		f.old = m
	}
	isNew := seq == f.last[key]+1
	if isNew {
		f.last[key] = seq
	}
	held, holds := f.held[key]
	switch {
	case isNew && holds:
		delete(f.held, key)
		return f.swap(ctx, held, m)
	case isNew && m.Subject == refundsSubject && seq%reorderEvery == 1 && f.reordered+len(f.held) < mostReorders:
		f.held[key] = m
		return nil
	case holds && seq == held.sequence(): // a further delivery of the message that is held back
		return nil
	}
	if err := f.send(ctx, m); err != nil || !isNew {
		return err
	}
	if f.calm++; f.calm%repeatEvery != 1 {
		return nil
	}
	f.repeated++
	return f.send(ctx, m)
}

// swap forwards second before first.
func (f *forwarder) swap(ctx context.Context, first, second EventMessage) error {
	if err := f.send(ctx, second); err != nil {
		return err
	}
	deadline := time.Now().Add(parkPatience)
	for !f.deaf {
		isParked, err := f.parked(ctx, second.Header["ce-id"])
		if err == nil && isParked {
			f.reordered++
			break
		}
		f.deaf = time.Now().After(deadline)
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
	if first.sequence() == 1 {
		f.old = first
	}
	return f.send(ctx, first)
}

// flush forwards the messages that are held back. It is called when no further message will come.
func (f *forwarder) flush(ctx context.Context) error {
	for key, m := range f.held {
		if err := f.send(ctx, m); err != nil {
			return err
		}
		delete(f.held, key)
	}
	return nil
}

// send stores a copy in the broker. It repeats that until the broker has confirmed it, because the broker may have been killed.
func (f *forwarder) send(ctx context.Context, m EventMessage) error {
	f.copies++
	id := fmt.Sprintf("%s copy %d", m.Header["ce-id"], f.copies)
	m.Subject = ReceiverPrefix + m.Subject
	for longest := 2 * time.Second; ; longest = min(2*longest, time.Minute) { // a broker that is killed does not answer, and a slow one needs more time
		bounded, cancel := context.WithTimeout(ctx, longest)
		err := f.to.Copy(bounded, id, m)
		cancel()
		if err == nil {
			return nil
		}
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
}

// sequence returns the number of a message within its key, or 0 if it has none.
func (m *EventMessage) sequence() int64 {
	seq, err := strconv.ParseInt(m.Header["ce-sequence"], 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
