package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// trouble is the trouble of other topics, while the healthy topic is measured.
type trouble struct {
	name   string
	most   time.Duration // p99 of the healthy topic; 0 means its p99 without trouble
	fill   func(ctx context.Context, pool *pgxpool.Pool) error
	config outbox.RelayConfig
	burst  time.Duration                                                                // how long the saved tokens of a rate last
	answer func(topic string, messages []message.Message, over <-chan struct{}) []error // nil if all are delivered
}

// healthy is a destination that measures its healthy topic.
type healthy struct {
	answer func(topic string, messages []message.Message, over <-chan struct{}) []error
	began  time.Time
	others atomic.Int64 // delivered messages of other topics

	mu                 sync.Mutex
	committed, arrived []time.Duration // since began; 0 before
	left               int
	all                chan struct{} // closed when everything has arrived
	over               chan struct{} // the end of the window, which also ends hanging calls
	once               sync.Once
	first              chan struct{} // closed when a message has arrived
}

var errTrouble = errors.New("in trouble")

// backlogOf adds each messages to each of the topics, with so many keys, or without keys. A topic has four parts.
func backlogOf(topics int, prefix string, each, keys int) func(ctx context.Context, pool *pgxpool.Pool) error {
	return func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := pool.Exec(ctx, `insert into once_outbox (part, topic, key, seq, event_id, event_type, source, headers, payload, encrypted, trace)
 select (abs(hashtext($1 || i % $2)) % 64 + i / $2 % greatest($4::int, 1) % 4) % 64, $1 || i % $2, case when $4 > 0 then 'k' || i / $2 % $4 else '' end,
  case when $4 > 0 then i / $2 / $4 + 1 end, gen_random_uuid(), 'refund.succeeded', 'once', '', decode(repeat('61', 100), 'hex'), false, ''
 from generate_series(0, $2::int * $3::int - 1) i`, prefix, topics, each, keys)
		return err
	}
}

func all(fills ...func(ctx context.Context, pool *pgxpool.Pool) error) func(ctx context.Context, pool *pgxpool.Pool) error {
	return func(ctx context.Context, pool *pgxpool.Pool) error {
		for _, fill := range fills {
			if err := fill(ctx, pool); err != nil {
				return err
			}
		}
		return nil
	}
}

func refuse(messages []message.Message, err error) []error {
	errs := make([]error, len(messages))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// isDown fails for topics whose name begins with "down".
func isDown(topic string, messages []message.Message, _ <-chan struct{}) []error {
	if strings.HasPrefix(topic, "down") {
		return refuse(messages, outbox.Unavailable(errTrouble))
	}
	return nil
}

// troubles are the scenarios. Backlogs are divided by scale.
func troubles(scale int) []trouble {
	var flaps atomic.Int64
	limited := outbox.RelayConfig{Topics: map[string]outbox.TopicConfig{"limited0": {Rate: 500}}}
	return []trouble{
		{name: "300 topics down", fill: backlogOf(300, "down", 200/scale, 10), answer: isDown},
		{
			name: thousands(int64(400_000/scale)) + " messages of a topic that is down, and one that flaps",
			fill: all(backlogOf(1, "down", 400_000/scale, 1000), backlogOf(1, "flaps", 20_000/scale, 100)),
			answer: func(topic string, messages []message.Message, over <-chan struct{}) []error {
				if topic == "flaps0" && flaps.Add(1)%2 == 0 {
					return refuse(messages, outbox.Unavailable(errTrouble))
				}
				return isDown(topic, messages, over)
			},
		},
		{
			name: thousands(int64(3000/scale)) + " topics whose receivers hang", fill: backlogOf(3000/scale, "stuck", 8, 4),
			answer: func(_ string, messages []message.Message, over <-chan struct{}) []error {
				<-over
				return refuse(messages, outbox.Unavailable(errTrouble))
			},
		},
		{
			name: "a hot key, 50 ms for each call", fill: backlogOf(1, "hot", 100_000/scale, 1),
			answer: func(_ string, _ []message.Message, over <-chan struct{}) []error {
				select {
				case <-over:
				case <-time.After(50 * time.Millisecond):
				}
				return nil
			},
		},
		{
			name: thousands(int64(80_000/scale)) + " messages that fail", fill: backlogOf(1, "fails", 80_000/scale, 0),
			answer: func(_ string, messages []message.Message, _ <-chan struct{}) []error {
				errs := refuse(messages, errTrouble)
				for i := range messages {
					if crc32.ChecksumIEEE([]byte(messages[i].ID))%10 == 0 { // the destination is available
						errs[i] = nil
					}
				}
				return errs
			},
		},
		{name: fmt.Sprintf("Rate 500, %s messages wait", thousands(int64(400_000/scale))), fill: backlogOf(1, "limited", 400_000/scale, 1000), config: limited},
		{name: thousands(int64(10_000/scale)) + " topics with 5 messages drain", fill: backlogOf(10_000/scale, "drains", 5, 0)},
		{name: thousands(int64(10_000/scale)) + " topics down, 5 messages each", most: 100 * time.Millisecond, fill: backlogOf(10_000/scale, "down", 5, 0), answer: isDown},
	}
}
