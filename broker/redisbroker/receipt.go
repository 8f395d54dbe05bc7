package redisbroker

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/consume"
)

// receipt answers the server for one message. If an answer is lost, the message is delivered again, and the inbox detects this.
type receipt struct {
	stream *stream
	id     string
	apart  int // the size of the message, if it waits for a long time
}

var _ consume.Receipt = (*receipt)(nil)

// answers contains queued answers to the server. The answers for many messages are sent in one round trip.
type answers struct{ acks, extends, gives []string }

// Ack implements [consume.Receipt].
func (r *receipt) Ack() { r.end(func(a *answers) { a.acks = append(a.acks, r.id) }) }

// Again implements [consume.Receipt]. Redis cannot delay a delivery. So Again returns false, and the pool keeps the message, unless
// too many messages of the stream wait already. Then the group keeps the message, and Redis delivers it again after it was
// idle for MinIdle. At the end of the consumer, the consumer makes the message idle at once.
func (r *receipt) Again(after time.Duration) bool {
	switch {
	case after <= 0:
		r.end(func(a *answers) { a.gives = append(a.gives, r.id) })
	case r.stream.isFull():
		// Without an answer, the message stays with this process in the group, and becomes idle.
		r.end(func(*answers) {})
	default:
		return false
	}
	return true
}

// Extend implements [consume.Receipt].
func (r *receipt) Extend() {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another receipt may hold the message after a claim, so this receipt is not valid any more.
	if s.held[r.id] == r {
		s.answers.extends = append(s.answers.extends, r.id)
		s.notify()
	}
}

// Apart implements [consume.Receipt].
func (r *receipt) Apart(bytes int) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[r.id] == r && r.apart == 0 {
		r.apart = bytes
		s.setApart(1, bytes)
	}
}

// end removes the message from the held messages, and queues an answer to the server.
func (r *receipt) end(answer func(a *answers)) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	// The message was answered already, or claimed again under another receipt.
	if s.held[r.id] != r {
		return
	}
	delete(s.held, r.id)
	if r.apart > 0 {
		s.setApart(-1, -r.apart)
	}
	answer(&s.answers)
	s.notify()
}

func (s *stream) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// lastAnswers limits the time of the last answers.
const lastAnswers = 5 * time.Second

// answerAll sends answers until ctx ends. Then it sends the last answers, and deletes the consumer of this process.
func (s *stream) answerAll(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.wake:
			// Without cancel, because the queued answers have left the queue already.
			s.answer(context.WithoutCancel(ctx))
		case <-ctx.Done():
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	s.answer(ending)
	_ = s.tidy(ending, s.name) // after an error, another process deletes the consumer later
}

// atOnce is the largest number of messages in one command.
const atOnce = 500

// answer sends the queued answers in one round trip.
func (s *stream) answer(ctx context.Context) {
	s.mu.Lock()
	a := s.answers
	s.answers = answers{}
	s.mu.Unlock()
	pipe := s.rdb.Pipeline()
	for ids := range slices.Chunk(a.extends, atOnce) {
		pipe.XClaimJustID(ctx, &redis.XClaimArgs{Stream: s.stream, Group: s.cfg.Group, Consumer: s.name, Messages: ids})
	}
	for ids := range slices.Chunk(a.gives, atOnce) {
		claim := []any{"xclaim", s.stream, s.cfg.Group, s.name, 0}
		for _, id := range ids {
			claim = append(claim, id)
		}
		pipe.Do(ctx, append(claim, "idle", s.cfg.MinIdle.Milliseconds(), "justid")...) // the message gets the idle time of an abandoned one, so that another process claims it at once
	}
	for ids := range slices.Chunk(a.acks, atOnce) {
		pipe.XAck(ctx, s.stream, s.cfg.Group, ids...)
	}
	if pipe.Len() == 0 {
		return
	}
	if _, err := pipe.Exec(ctx); err != nil {
		s.log.Debug("once: redisbroker: acknowledgements got no answer, so their messages may be delivered again; the inbox applies each message once",
			"stream", s.stream, "group", s.cfg.Group, "messages", len(a.acks), "error", err)
	}
}
