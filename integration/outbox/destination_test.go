package outbox

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/message"
)

// destination is where relay processes deliver to. It fails now and then until it is calm.
type destination interface {
	disturb(t *testing.T)                   // is called again and again, and breaks something
	met() (failures int, says string)       // what relays have met
	setCalm()                               // from now on nothing fails
	arrived(t *testing.T) []message.Message // all deliveries, in their order
}

// destinations are made by their name. Each tells in the plan how a relay reaches it.
var destinations = map[string]func(t *testing.T, p *relayPlan) destination{
	toHTTP:      func(t *testing.T, p *relayPlan) destination { return newConsumer(t, p) },
	toNATS:      func(t *testing.T, p *relayPlan) destination { return newStream(t, p) },
	toKafka:     func(t *testing.T, p *relayPlan) destination { return newLog(t, p) },
	toRedis:     func(t *testing.T, p *relayPlan) destination { return newRedisStreams(t, p) },
	toWatermill: func(t *testing.T, p *relayPlan) destination { return newConsumer(t, p) },
}

// The names of destinations.
const (
	toHTTP      = "HTTP"
	toNATS      = "NATS"
	toKafka     = "Kafka"
	toRedis     = "Redis"
	toWatermill = "Watermill"
)

// verdict is what a consumer that discards what it knows has seen.
type verdict struct{ lost, outOfOrder, duplicates int }

// judge reads deliveries as a consumer does that discards what is not newer than the last message of its key.
func judge(committed map[string]bool, arrived []message.Message) (v verdict) {
	last, seen := map[string]int64{}, map[string]bool{}
	for _, m := range arrived {
		if seen[m.ID] {
			v.duplicates++
		}
		seen[m.ID] = true
		key := m.Topic + "\x00" + m.Key
		switch {
		case m.Key == "" || m.Seq <= last[key]:
		case m.Seq == last[key]+1:
			last[key] = m.Seq
		default:
			v.outOfOrder++
			last[key] = m.Seq
		}
	}
	for id := range committed {
		if !seen[id] {
			v.lost++
		}
	}
	return v
}

// consumer is a destination over HTTP that refuses, answers late and does not answer.
type consumer struct {
	calm atomic.Bool // it only takes

	mu       sync.Mutex
	taken    []message.Message
	refused  map[string]int // how often, by ID
	refusals int
	late     int
}

func newConsumer(t *testing.T, p *relayPlan) *consumer {
	t.Helper()
	c := &consumer{refused: map[string]int{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	p.URL = s.URL
	return c
}

func (c *consumer) disturb(*testing.T) {}

func (c *consumer) setCalm() { c.calm.Store(true) }

func (c *consumer) met() (int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals, fmt.Sprintf("%d refusals, %d late or lost answers", c.refusals, c.late)
}

func (c *consumer) arrived(*testing.T) []message.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.taken)
}

// ServeHTTP takes a batch.
func (c *consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var messages []message.Message
	if err := json.NewDecoder(r.Body).Decode(&messages); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	chaos := 100
	if !c.calm.Load() {
		chaos = rand.IntN(100)
	}
	if chaos < 2 { // late: the relay has given up, and may have delivered them again
		c.count(&c.late)
		<-time.After(400 * time.Millisecond)
	}
	_ = json.NewEncoder(w).Encode(c.take(messages)) //nolint:errchkjson // strings; a relay that is gone reads nothing
	if chaos >= 2 && chaos < 4 {                    // taken, and the answer is lost
		c.count(&c.late)
		panic(http.ErrAbortHandler)
	}
}

func (c *consumer) count(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *consumer) take(messages []message.Message) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := make([]string, len(messages))
	failed := map[string]bool{}
	for i, m := range messages {
		key := m.Topic + "\x00" + m.Key
		if m.Key != "" && failed[key] {
			answers[i] = "an earlier one has failed"
			continue
		}
		if !c.calm.Load() && m.Seq%10 == 3 && c.refused[m.ID] < 2 { // the head of a key fails
			c.refused[m.ID]++
			c.refusals++
			failed[key] = true
			answers[i] = "refused"
			continue
		}
		c.taken = append(c.taken, m)
	}
	return answers
}
