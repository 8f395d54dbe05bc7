package redisbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/consume"
	"github.com/oncelib/once/message"
)

const (
	shortestClaim = 100 * time.Millisecond
	longestClaim  = 5 * time.Second
)

// stream is a stream that this process reads.
type stream struct {
	*consumer

	stream  string
	created bool      // the group exists, as far as this process knows
	claimAt time.Time // when this process looks again for abandoned messages of other processes

	mu      sync.Mutex
	held    map[string]*receipt // the messages in the pool, by their IDs
	answers answers             // the answers that are not sent yet
	wake    chan struct{}       // signals that answers are queued
}

// readAll fills the pool until ctx ends. If the server cannot be reached, or refuses the stream, it tries again.
func (s *stream) readAll(ctx context.Context) error {
	known := false // the server has accepted this process before
	for failures := 0; ctx.Err() == nil; {
		err := s.read(ctx)
		known = known || s.created
		switch {
		case err == nil:
			if failures > 0 {
				s.log.Info("once: redisbroker: the stream can be read again", "stream", s.stream, "group", s.cfg.Group)
			}
			failures = 0
			continue
		case ctx.Err() != nil:
			return nil //nolint:nilerr // ctx has ended
		// At the start, a refused user is a mistake in the configuration. Later it may be temporary.
		case errors.Is(err, redis.ErrClosed), !known && refusesUser(err):
			return classify(s.stream, err)
		}
		failures++
		s.log.Warn("once: redisbroker: a stream cannot be read at the moment, and the consumer tries again. Try: check that the Redis server is running and that the key is a stream",
			"stream", s.stream, "group", s.cfg.Group, "error", classify(s.stream, err))
		consume.Pause(ctx, failures)
	}
	return nil
}

func refusesUser(err error) bool {
	return redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
}

// read reads once: sometimes abandoned messages, and then new messages.
func (s *stream) read(ctx context.Context) error {
	if !s.created {
		// The group begins at the start of the stream, because a missing group may have existed before and be lost.
		err := s.rdb.XGroupCreateMkStream(ctx, s.stream, s.cfg.Group, "0").Err()
		if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return err
		}
		s.created = true
	}
	var err error
	if now := time.Now(); !now.Before(s.claimAt) {
		// Set before the attempt, so that a failing server is not asked all the time.
		s.claimAt = now.Add(max(shortestClaim, min(s.cfg.MinIdle/2, longestClaim)))
		if err = s.claimAll(ctx); err == nil {
			err = s.tidy(ctx, "")
		}
	}
	if err == nil {
		err = s.readNew(ctx)
	}
	// The group was deleted, for example by a failover, so it is created again.
	if redis.HasErrorPrefix(err, "NOGROUP") {
		s.created = false
	}
	return err
}

// readNew fetches as many new messages as the pool has room for. If no new message exists, it waits for one message.
func (s *stream) readNew(ctx context.Context) error {
	fetch := func() (int, error) {
		// One stream at a time, because the room that one is promised must not be used by another.
		s.fetching.Lock()
		defer s.fetching.Unlock()
		n, err := s.pool.Room(ctx, largest)
		if err != nil {
			return 0, err
		}
		return s.fetch(ctx, n, -1)
	}
	n, err := fetch()
	if n > 0 || err != nil {
		return err
	}
	// A single message is enough for the wait, because it has to fit into the pool without a reservation.
	_, err = s.fetch(ctx, 1, readWait)
	return err
}

// fetch puts at most n new messages into the pool, and returns their number. It waits for the first message, unless wait is
// negative.
func (s *stream) fetch(ctx context.Context, n int, wait time.Duration) (int, error) {
	read, err := s.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: s.cfg.Group, Consumer: s.name, Streams: []string{s.stream, ">"}, Count: int64(n), Block: wait,
	}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	count := 0
	for _, of := range read {
		count += len(of.Messages)
		s.add(of.Messages, func(string) int { return 1 })
	}
	return count, nil
}

// claimAll takes over the messages that their processes have abandoned.
func (s *stream) claimAll(ctx context.Context) error {
	for start := "0-0"; ; {
		next, err := s.claim(ctx, start)
		if err != nil || next == "0-0" {
			return err
		}
		start = next
	}
}

// claim takes over one page of abandoned messages, and returns where the next page begins.
func (s *stream) claim(ctx context.Context, start string) (next string, err error) {
	s.fetching.Lock()
	defer s.fetching.Unlock()
	n, err := s.pool.Room(ctx, largest)
	if err != nil {
		return "", err
	}
	claimed, next, gone, err := s.rdb.XAutoClaimWithDeleted(ctx, &redis.XAutoClaimArgs{
		Stream: s.stream, Group: s.cfg.Group, Consumer: s.name, MinIdle: s.cfg.MinIdle, Start: start, Count: int64(n),
	}).Result()
	if err != nil {
		return "", err
	}
	// Redis has removed them from the group as well, so only the log tells about them.
	if len(gone) > 0 {
		s.log.Error("once: redisbroker: messages were deleted or trimmed from a stream before they were acknowledged, and are lost if no handler has applied them. Try: no MaxLen, or a larger one; ConsumerConfig.Keep deletes only acknowledged messages",
			"stream", s.stream, "group", s.cfg.Group, "messages", len(gone), "first", gone[0])
	}
	if len(claimed) == 0 {
		return next, nil
	}
	// The answer does not contain the numbers of deliveries.
	counts := make(map[string]int, len(claimed))
	pipe := s.rdb.Pipeline()
	for _, m := range claimed {
		pipe.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: s.stream, Group: s.cfg.Group, Start: m.ID, End: m.ID, Count: 1})
	}
	asked, err := pipe.Exec(ctx)
	for _, a := range asked {
		if pending, is := a.(*redis.XPendingExtCmd); is {
			for _, p := range pending.Val() {
				counts[p.ID] = int(min(p.RetryCount, 1<<30))
			}
		}
	}
	s.add(claimed, func(id string) int { return max(2, counts[id]) }) // also after an error, because this process has claimed the messages already
	return next, err
}

// add puts messages into the pool. Messages that the pool already has are not changed: their claim was only a sign of life.
func (s *stream) add(messages []redis.XMessage, delivery func(id string) int) {
	var list []*consume.Delivery
	for _, m := range messages {
		if r := s.hold(m.ID); r != nil {
			list = append(list, s.delivery(r, m, delivery(m.ID)))
		}
	}
	s.pool.Add(list...)
}

// hold records that the pool gets a message. It returns nil if the pool already has the message.
func (s *stream) hold(id string) *receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[id] != nil {
		return nil
	}
	r := &receipt{stream: s, id: id}
	s.held[id] = r
	return r
}

// delivery decodes a message of the stream.
func (s *stream) delivery(r *receipt, m redis.XMessage, delivery int) *consume.Delivery {
	data, has := m.Values[dataField].(string)
	d := &consume.Delivery{Receipt: r}
	d.Decode(message.Message{Topic: s.stream, Payload: []byte(data)}, func() (message.Message, error) { return s.cfg.Decode(s.stream, m) })
	d.Message.Delivery = delivery
	if d.Malformed == nil {
		return d
	}
	if d.Message.ID == "" { // the position in the stream identifies the message
		d.Message.ID, d.Message.Source = fmt.Sprintf("%s/%s", s.stream, m.ID), "redis"
	}
	if !has && len(d.Message.Payload) == 0 {
		d.Message.Payload, _ = json.Marshal(m.Values) //nolint:errchkjson // all fields, for the person who looks at the dead letter
	}
	return d
}
