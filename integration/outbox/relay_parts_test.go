package outbox

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// partedStore adds messages as processes of several releases do that share an outbox: of one key, some are in the part that
// earlier releases choose, and some in the part that later ones choose.
type partedStore[TX any] struct{ sqlplane.SQL[TX] }

func (s partedStore[TX]) On(tx TX) sqlplane.Runner { return partedRunner{s.SQL.On(tx)} }

type partedRunner struct{ sqlplane.Runner }

func (r partedRunner) Append(ctx context.Context, st store.Statement) error {
	if topic, key, is := rowOf(st); is {
		choice := []int64{partOfKey(topic, key), partOfTopic(topic, key)}
		st.Args[0] = choice[rand.IntN(len(choice))]
	}
	return r.Runner.Append(ctx, st)
}

// TestRelayKeyInTwoParts: a key whose messages are in the parts of several releases arrives in order, also if some of them fail.
func TestRelayKeyInTwoParts(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayKeyInTwoParts, testRelayKeyInTwoParts)
}

func testRelayKeyInTwoParts[TX any](t *testing.T, g *fixture[TX]) {
	const keys, each = 8, 30
	box := outbox.New[TX](partedStore[TX]{g.store}, outbox.Config{})
	for i := range each {
		must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
			var list []message.Message
			for k := range keys {
				list = append(list, event("refunds", fmt.Sprint(k), fmt.Sprintf("t%d", i+1)))
			}
			return box.Add(ctx, tx, list...)
		}))
	}
	if n := g.count(t, "select count(*) from (select KEY from once_outbox group by KEY having count(distinct part) > 1) k"); n < keys/2 {
		t.Errorf("vacuous: %d keys are in two parts", n)
	}
	b := newInbox()
	b.setRefuse(func(m message.Message) error {
		if m.Seq%5 == 3 && m.Delivery < 3 {
			return errRefused
		}
		return nil
	})
	start(t, g.relay(b, outbox.RelayConfig{Batch: 50, Policy: soon(forever), Observer: newEvents()}))
	b.waitFor(t, keys*each)
	g.waitEmpty(t)
	b.check(t, keys*each)
	for k := range keys {
		if got := b.types("refunds", fmt.Sprint(k)); got != upTo(each) {
			t.Errorf("%d: %s", k, got)
		}
	}
}

// rowOf returns what a statement adds.
func rowOf(st store.Statement) (topic, key string, is bool) {
	if !strings.Contains(st.SQL, "insert into once_outbox (part, topic, ") || len(st.Args) < 4 {
		return "", "", false
	}
	topic, isTopic := st.Args[1].(string)
	key, isKey := st.Args[2].(string)
	if id, isID := st.Args[3].(string); isID && key == "" {
		key = id
	}
	return topic, key, isTopic && isKey
}

const allParts = 64

func hashOf(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32()
}

// partOfKey spreads the keys of a topic over all parts.
func partOfKey(topic, key string) int64 { return int64(hashOf(topic+"\x00"+key) % allParts) }

// partOfTopic spreads them over four parts.
func partOfTopic(topic, key string) int64 {
	h := hashOf(topic + "\x00" + key)
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return int64((hashOf(topic) + (h^h>>16)%4) % allParts)
}
