package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
)

// kafkaLog is a model of a Kafka broker in this process, to which connections are cut, and which refuses
// some records.
type kafkaLog struct {
	cluster *kfake.Cluster
	proxy   *faultnet.Proxy
	cuts    int
	calm    atomic.Bool
	refused atomic.Int64
}

// newLog is a broker as the destination of relays.
func newLog(t *testing.T, p *relayPlan) *kafkaLog {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "refunds", "mails", "audit"))
	must(t, err)
	t.Cleanup(cluster.Close)
	proxy, err := faultnet.Listen(cluster.ListenAddrs()[0])
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	p.URL = proxy.Addr()
	k := &kafkaLog{cluster: cluster, proxy: proxy}
	cluster.ControlKey(int16(kmsg.Produce), k.refuse)
	return k
}

// kafkaPublisher is the publisher of a relay process: it reaches the broker through the proxy at address.
func kafkaPublisher(address string) (outbox.Publisher, func(), error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableIdempotentWrite(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return nil, nil, err
	}
	return kafkabroker.Publisher(client), client.Close, nil
}

// refuse refuses the first request, so that relays have met a failure however few requests they make, and others now and then.
func (k *kafkaLog) refuse(req kmsg.Request) (kmsg.Response, error, bool) {
	k.cluster.KeepControl()
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok || k.calm.Load() || k.refused.Load() > 0 && rand.IntN(20) > 0 {
		return nil, nil, false //nolint:nilnil // false: kfake answers
	}
	answer, ok := produce.ResponseKind().(*kmsg.ProduceResponse)
	if !ok {
		return nil, nil, false //nolint:nilnil // false: kfake answers
	}
	k.refused.Add(1)
	for _, topic := range produce.Topics {
		answered := kmsg.NewProduceResponseTopic()
		answered.Topic, answered.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode = partition.Partition, kerr.TopicAuthorizationFailed.Code
			answered.Partitions = append(answered.Partitions, one)
		}
		answer.Topics = append(answer.Topics, answered)
	}
	return answer, nil, true
}

func (k *kafkaLog) disturb(*testing.T) {
	if k.proxy.CutAll() > 0 {
		k.cuts++
	}
}

func (k *kafkaLog) setCalm() { k.calm.Store(true) }

func (k *kafkaLog) met() (int, string) {
	refused := k.refused.Load()
	return int(refused), fmt.Sprintf("%d times all connections cut, %d requests refused", k.cuts, refused)
}

// arrived returns all records, those of a partition in their order.
func (k *kafkaLog) arrived(t *testing.T) (list []message.Message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.cluster.ListenAddrs()...), kgo.ConsumeTopics("refunds", "mails", "audit"))
	must(t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), "refunds", "mails", "audit")
	must(t, err)
	want := int64(0)
	ends.Each(func(end kadm.ListedOffset) { must(t, end.Err); want += end.Offset })
	for int64(len(list)) < want {
		fetches := client.PollFetches(t.Context())
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			m, err := outboxtest.Message(r.Topic, "ce_", false, func(yield func(name, value string) bool) {
				for _, h := range r.Headers {
					if !yield(h.Key, string(h.Value)) {
						return
					}
				}
			}, r.Value)
			must(t, err)
			list = append(list, m)
		})
	}
	return list
}
