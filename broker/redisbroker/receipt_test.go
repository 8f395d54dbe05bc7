package redisbroker

// The tests with servers are in integration/broker and integration/consumer: "make test-of DIR=broker/redisbroker" runs them after these.

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newStream is one of a consumer that holds two messages in trouble.
func newStream(t *testing.T) *stream {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := newConsumer(rdb, nil, ConsumerConfig{Streams: []string{"refunds"}, Group: "billing", Prefetch: 2, PrefetchBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return c.streams[0]
}

// TestMessagesInTrouble: a consumer keeps as many messages that have failed, or wait for one of their key, as Prefetch and PrefetchBytes say. Others are left to the group.
func TestMessagesInTrouble(t *testing.T) {
	for name, bytes := range map[string]int{"count": 10, "bytes": 500} {
		s := newStream(t)
		first, second, third := s.hold("1-0"), s.hold("2-0"), s.hold("3-0")
		if s.hold("1-0") != nil {
			t.Errorf("%s: a message that is here is taken twice", name)
		}
		for _, r := range []*receipt{first, second} {
			if r.Again(time.Second) {
				t.Errorf("%s: a message is left to the group, and there is room", name)
			}
			r.Apart(bytes)
			r.Apart(bytes) // counts once
		}
		if !third.Again(time.Second) {
			t.Errorf("%s: a third message is kept", name)
		}
		second.Ack()
		second.Ack()
		if third = s.hold("3-0"); third == nil || third.Again(time.Second) {
			t.Errorf("%s: no message is kept, and there is room again", name)
		}
		if s.apart != 1 || s.bytes != bytes {
			t.Errorf("%s: %d messages, %d bytes", name, s.apart, s.bytes)
		}
	}
}

// TestAnswersAreSentOncePerMessage: the server is told of each message once, and not of one that was left to the group.
func TestAnswersAreSentOncePerMessage(t *testing.T) {
	s := newStream(t)
	applied, failed, early := s.hold("1-0"), s.hold("2-0"), s.hold("3-0")
	for _, r := range []*receipt{applied, failed, early} {
		r.Extend()
	}
	applied.Ack()
	early.Again(0)
	for _, r := range []*receipt{applied, early} { // they are not here any more
		r.Extend()
		r.Ack()
		r.Again(0)
		r.Apart(1)
	}
	if a := s.answers; len(a.acks) != 1 || a.acks[0] != "1-0" || len(a.gives) != 1 || a.gives[0] != "3-0" || len(a.extends) != 3 {
		t.Errorf("%+v", a)
	}
	if len(s.held) != 1 || s.apart != 0 {
		t.Errorf("%d messages are held, %d apart", len(s.held), s.apart)
	}
}

// TestIsBefore: IDs of entries are compared by their numbers.
func TestIsBefore(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"0-0", "1700000000000-0", true}, {"9-0", "10-0", true}, {"10-0", "9-0", false}, {"5-9", "5-10", true}, {"5-10", "5-9", false}, {"5-1", "5-1", false},
	} {
		if got := isBefore(c.a, c.b); got != c.want {
			t.Errorf("%s before %s: %v", c.a, c.b, got)
		}
	}
}
