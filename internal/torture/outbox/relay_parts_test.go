package outbox

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/oncelib/once/store"
)

// partedStore adds messages as processes of several releases do that share an outbox: of one key, some are in the part that
// earlier releases choose, and some in the part that later ones choose.
type partedStore[TX any] struct{ store.SQL[TX] }

func (s partedStore[TX]) On(tx TX) store.Runner { return partedRunner{s.SQL.On(tx)} }

type partedRunner struct{ store.Runner }

func (r partedRunner) Append(ctx context.Context, st store.Statement) error {
	if part, topic, key, is := rowOf(st); is {
		choice := []int64{partOfKey(topic, key), partOfTopic(topic, key), part}
		st.Args[0] = choice[rand.IntN(len(choice))]
	}
	return r.Runner.Append(ctx, st)
}

// rowOf returns what a statement adds.
func rowOf(st store.Statement) (part int64, topic, key string, is bool) {
	if !strings.Contains(st.SQL, "insert into once_outbox (part, topic, ") || len(st.Args) < 4 {
		return 0, "", "", false
	}
	part, isPart := st.Args[0].(int64)
	topic, isTopic := st.Args[1].(string)
	key, isKey := st.Args[2].(string)
	if id, isID := st.Args[3].(string); isID && key == "" {
		key = id
	}
	return part, topic, key, isPart && isTopic && isKey
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
	return int64((hashOf(topic) + hashOf(topic+"\x00"+key)%4) % allParts)
}
