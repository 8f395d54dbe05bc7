package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/keyed"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

const (
	onTheWay    = 64 // the largest number of messages without an answer; more connections would not be faster
	replicaWait = time.Second
)

// PublisherConfig configures a [Publisher]. The zero value is ready to use.
type PublisherConfig struct {
	// MaxLen is the approximate number of messages that a stream keeps. If a stream has more than about MaxLen messages when a message is added,
	// Redis deletes the oldest messages, even if no consumer has read these messages. So a consumer that is stopped for a long time loses messages.
	// Default: 0, the publisher deletes no messages; see also [ConsumerConfig].Keep.
	MaxLen int64

	// Replicas is the number of replicas that must have a message before the message counts as delivered. The publisher waits for the replicas for at
	// most one second, so the ReadTimeout of the client must be longer than one second. Default: 0, a message counts as delivered when the primary
	// has answered.
	Replicas int
}

// Publisher returns a publisher that adds messages to Redis streams with rdb. Publisher panics if cfg.Replicas is set and the ReadTimeout of rdb is
// not longer than one second, because the publisher waits for replicas for up to one second.
func Publisher(rdb *redis.Client, cfg PublisherConfig) outbox.Publisher {
	options := rdb.Options()
	if timeout := options.ReadTimeout; cfg.Replicas > 0 && timeout > 0 && timeout <= replicaWait {
		panic(fmt.Sprintf("redisbroker: Publisher: the read timeout of the client (%v) is shorter than the time to wait for replicas (%v). Try: a longer redis.Options.ReadTimeout", timeout, replicaWait))
	}
	return &publisher{rdb: rdb, cfg: cfg, sender: keyed.NewSender(max(1, min(onTheWay, options.PoolSize)))}
}

type publisher struct {
	rdb    *redis.Client
	cfg    PublisherConfig
	sender *keyed.Sender
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, messages []message.Message) []error {
	return p.sender.Publish(ctx, messages, func(m *message.Message) error {
		return classify(m.Topic, p.send(ctx, m))
	})
}

var errBehind = errors.New("too few replicas have confirmed the message in time. Try: check that the replicas are connected and up to date, or lower PublisherConfig.Replicas")

func (p *publisher) send(ctx context.Context, m *message.Message) error {
	args := &redis.XAddArgs{Stream: m.Topic, MaxLen: p.cfg.MaxLen, Approx: true, Values: fields(m)}
	if p.cfg.Replicas <= 0 {
		return p.rdb.XAdd(ctx, args).Err()
	}
	pipe := p.rdb.Pipeline() // WAIT only concerns writes of its own connection, so both are sent in one pipeline
	added := pipe.XAdd(ctx, args)
	wait := pipe.Do(ctx, "wait", p.cfg.Replicas, replicaWait.Milliseconds())
	_, _ = pipe.Exec(ctx) // each command has a separate error
	if err := added.Err(); err != nil {
		return err
	}
	if have, err := wait.Int(); err != nil || have < p.cfg.Replicas {
		return errors.Join(errBehind, err)
	}
	return nil
}

// remedies contains beginnings of server errors that do not concern a single message, with advice. All these errors may be temporary.
var remedies = []struct{ answer, try string }{
	{"OOM", "a larger maxmemory, or ConsumerConfig.Keep, which deletes acknowledged messages"},
	{"READONLY", "the address of the primary"},
	{"MOVED", "the address of a Redis server that is not in cluster mode"},
	{"ASK", "the address of a Redis server that is not in cluster mode"},
	{"WRONGTYPE", "another name for the topic: the Redis key with this name is not a stream"},
	{"NOPERM", "a Redis user that is allowed to write to the stream"},
	{"NOAUTH", "a user and a password"},
	{"WRONGPASS", "another user or password"},
	{"MISCONF", "check the disk of the Redis server, which cannot save its data"},
	{"NOREPLICAS", "check that the replicas of the Redis server are connected"},
	{"LOADING", ""},
	{"MASTERDOWN", ""},
	{"CLUSTERDOWN", ""},
	{"BUSY", ""}, // the server runs a script or a function
	{"TRYAGAIN", ""},
	{"UNBLOCKED", ""},
	{"max number of clients", "a larger maxclients"},
}

// classify returns the meaning of an error for the messages of a stream.
func classify(stream string, err error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("redisbroker: stream %s: %w", stream, err)
	if errors.Is(err, redis.ErrClosed) { // only the program closes the client: the library itself always connects again
		return outbox.Closed(fmt.Errorf("%w. Try: close the client after Run or Consume has returned", told))
	}
	for _, r := range remedies {
		if redis.HasErrorPrefix(err, r.answer) {
			if r.try != "" {
				told = fmt.Errorf("%w. Try: %s", told, r.try)
			}
			return outbox.Unavailable(told)
		}
	}
	// Other errors of the server concern this message.
	if answer := redis.Error(nil); errors.As(err, &answer) {
		return told
	}
	return outbox.Unavailable(told)
}
