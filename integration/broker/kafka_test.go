package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
	"github.com/oncelib/once/retry"
)

// kafka is a model of a Kafka broker in this process, behind a proxy.
type kafka struct {
	cluster *kfake.Cluster
	proxy   *faultnet.Proxy
	direct  *kgo.Client // not through the proxy
	read    map[string]map[int32]int64
}

func newKafka(t *testing.T, topics ...string) *kafka {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	proxy, err := faultnet.Listen(cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	k := &kafka{cluster: cluster, proxy: proxy, read: map[string]map[int32]int64{}}
	for _, topic := range topics {
		k.read[topic] = map[int32]int64{}
	}
	k.direct = kafkaClient(t, kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topics...))
	return k
}

func kafkaClient(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// client returns one that reaches the broker through the proxy.
func (k *kafka) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	return kafkaClient(t, append(options, kgo.SeedBrokers(k.cluster.ListenAddrs()...), kgo.Dialer(k.proxy.DialContext),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))...)
}

// writer returns a client that may publish.
func (k *kafka) writer(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	return k.client(t, append(options, kgo.DisableIdempotentWrite())...)
}

// received reads what has come since the last call.
func (k *kafka) received(t *testing.T) []message.Message {
	t.Helper()
	ends, err := kadm.NewClient(k.direct).ListEndOffsets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var arrived []message.Message
	for k.behind(ends) {
		fetches := k.direct.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			k.read[r.Topic][r.Partition] = r.Offset + 1
			m, err := outboxtest.Message(r.Topic, "ce_", false, func(yield func(name, value string) bool) {
				for _, h := range r.Headers {
					if !yield(h.Key, string(h.Value)) {
						return
					}
				}
			}, r.Value)
			if err != nil || m.Key != string(r.Key) || !m.CreatedAt.Truncate(time.Millisecond).Equal(r.Timestamp) {
				t.Errorf("record %q at %v: %+v, %v", r.Key, r.Timestamp, m, err)
			}
			arrived = append(arrived, m)
		})
	}
	return arrived
}

func (k *kafka) behind(ends kadm.ListedOffsets) bool {
	behind := false
	ends.Each(func(end kadm.ListedOffset) {
		if partitions, known := k.read[end.Topic]; known && partitions[end.Partition] < end.Offset {
			behind = true
		}
	})
	return behind
}

func TestPublisherOnKafka(t *testing.T) {
	k := newKafka(t, "refunds", "payouts")
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: kafkabroker.Publisher(k.writer(t)), Topics: []string{"refunds", "payouts"}, Received: k.received,
		Reject: func(m *message.Message) { m.Payload = make([]byte, 2<<20) },
		Break: func(t *testing.T) func() {
			t.Helper()
			k.proxy.SetUpstream("127.0.0.1:1")
			k.proxy.CutAll()
			return func() { k.proxy.SetUpstream(k.cluster.ListenAddrs()[0]) }
		},
	})
}

// TestKafkaConnectionsAreCut: each message is published until it is confirmed, while connections are cut again and again.
// All arrive, those of a key in order behind a consumer that drops what it has seen.
func TestKafkaConnectionsAreCut(t *testing.T) {
	k := newKafka(t, "refunds")
	p := kafkabroker.Publisher(k.writer(t))
	const keys, each = 20, 100
	var waiting []message.Message
	for i := range keys * each {
		waiting = append(waiting, message.Message{
			Topic: "refunds", Key: fmt.Sprint("key ", i%keys), Seq: int64(i/keys) + 1, ID: fmt.Sprint("id", i), Type: "test",
			CreatedAt: time.Now(),
		})
	}
	cuts := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		const short = 300 * time.Millisecond // so that some calls end in doubt
		for timeout := short; len(waiting) > 0; {
			batch := waiting[:min(len(waiting), 200)]
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			errs := p.Publish(ctx, batch)
			cancel()
			var failed []message.Message
			for i, m := range batch {
				if errs != nil && errs[i] != nil {
					failed = append(failed, m)
				}
			}
			if len(failed) == len(batch) {
				timeout *= 2 // a slow machine gets there as well
			} else {
				timeout = short
			}
			waiting = append(failed, waiting[len(batch):]...)
		}
	}()
	ticker := time.NewTicker(15 * time.Millisecond)
	defer ticker.Stop()
	for working := true; working; {
		select {
		case <-done:
			working = false
		case <-ticker.C:
			if cuts < 40 {
				cuts++
				k.proxy.CutAll()
			}
		}
	}
	last := map[string]int64{}
	deliveries, duplicates := 0, 0
	for _, m := range k.received(t) {
		deliveries++
		switch {
		case m.Seq <= last[m.Key]:
			duplicates++
		case m.Seq != last[m.Key]+1:
			t.Errorf("%s: number %d after %d", m.Key, m.Seq, last[m.Key])
			fallthrough
		default:
			last[m.Key] = m.Seq
		}
	}
	for i := range keys {
		if key := fmt.Sprint("key ", i); last[key] != each {
			t.Errorf("%s ends with %d", key, last[key])
		}
	}
	testenv.Reportf(t, "%d messages, %d times all connections to kfake cut: %d deliveries, %d duplicates", keys*each, cuts, deliveries, duplicates)
}

// TestKafkaRefusals: which errors are of the message, and which of the destination.
func TestKafkaRefusals(t *testing.T) {
	k := newKafka(t, "refunds")
	of := func(err error) bool { return err != nil && !retry.IsPermanent(err) && !outbox.IsUnavailable(err) }
	for code, is := range map[*kerr.Error]func(error) bool{
		kerr.MessageTooLarge: retry.IsPermanent, kerr.InvalidRecord: retry.IsPermanent,
		kerr.TopicAuthorizationFailed: of,
	} {
		p := kafkabroker.Publisher(k.writer(t))
		refuse := true
		k.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if !refuse {
				return nil, nil, false //nolint:nilnil // false: kfake answers
			}
			refuse = false
			return refusal(req, code), nil, true
		})
		messages := []message.Message{{Topic: "refunds", Key: "a", ID: "1", Seq: 1, CreatedAt: time.Now()}, {Topic: "refunds", Key: "a", ID: "2", Seq: 2, CreatedAt: time.Now()}}
		errs := p.Publish(t.Context(), messages)
		if errs == nil || !is(errs[0]) || errs[1] == nil {
			t.Errorf("%v: %v", code, errs)
		}
		if arrived := k.received(t); len(arrived) != 0 {
			t.Errorf("%v: arrived: %v", code, arrived)
		}
		if errs := p.Publish(t.Context(), messages[1:]); errs != nil {
			t.Errorf("%v: the next message: %v", code, errs)
		}
		k.received(t)
	}
	p := kafkabroker.Publisher(k.writer(t, kgo.UnknownTopicRetries(0)))
	if errs := p.Publish(t.Context(), []message.Message{{Topic: "nowhere", ID: "1"}}); errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Errorf("no such topic: %v", errs)
	}
	closed := k.writer(t)
	closed.Close()
	if errs := kafkabroker.Publisher(closed).Publish(t.Context(), []message.Message{{Topic: "refunds", ID: "1"}}); errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Errorf("a closed client: %v", errs)
	}
	for _, acks := range []kgo.Acks{kgo.LeaderAck(), kgo.NoAck()} {
		p := kafkabroker.Publisher(k.client(t, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite()))
		if errs := p.Publish(t.Context(), []message.Message{{Topic: "refunds", ID: "1"}}); errs == nil || !outbox.IsUnavailable(errs[0]) || !strings.Contains(errs[0].Error(), "Try: ") {
			t.Errorf("a client that does not wait: %v", errs)
		}
	}
	if arrived := k.received(t); len(arrived) != 0 {
		t.Errorf("arrived: %v", arrived)
	}
}

// refusal is the answer to a request to produce that refuses all records.
func refusal(req kmsg.Request, code *kerr.Error) *kmsg.ProduceResponse {
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return nil
	}
	answer, ok := produce.ResponseKind().(*kmsg.ProduceResponse)
	if !ok {
		return nil
	}
	for _, topic := range produce.Topics {
		answered := kmsg.NewProduceResponseTopic()
		answered.Topic, answered.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode = partition.Partition, code.Code
			answered.Partitions = append(answered.Partitions, one)
		}
		answer.Topics = append(answer.Topics, answered)
	}
	return answer
}

// TestKafkaConfirmsOnlyWhatItHas: the broker writes a record, its answer is lost, and it refuses the second attempt, because the right to write was
// withdrawn. When the right is back, a message that is published without an error is in the log. An idempotent client would number the
// next record like the first one, so that the broker discards it as a duplicate and confirms it.
func TestKafkaConfirmsOnlyWhatItHas(t *testing.T) {
	for name, option := range map[string]kgo.Opt{"idempotent": kgo.RequiredAcks(kgo.AllISRAcks()), "not idempotent": kgo.DisableIdempotentWrite()} {
		t.Run(name, func(t *testing.T) {
			k := newKafka(t, "refunds")
			p := kafkabroker.Publisher(k.client(t, option, kgo.ProducerBatchCompression(kgo.NoCompression())))
			requests := 0
			k.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				k.cluster.KeepControl()
				if requests++; requests == 2 {
					return refusal(req, kerr.TopicAuthorizationFailed), nil, true
				}
				return nil, nil, false //nolint:nilnil // false: kfake answers
			})
			first := message.Message{Topic: "refunds", Key: "a", ID: "first", Seq: 1, CreatedAt: time.Now(), Payload: []byte("swallow the answer")}
			next := message.Message{Topic: "refunds", Key: "a", ID: "next", Seq: 1, CreatedAt: time.Now(), Payload: []byte("another payload")}
			k.proxy.Arm(faultnet.SwallowAnswer("swallow the answer", ""))
			if errs := p.Publish(t.Context(), []message.Message{first}); errs == nil {
				t.Error("the first message is confirmed")
			}
			errs := p.Publish(t.Context(), []message.Message{next})
			var arrived []string
			for _, m := range k.received(t) {
				arrived = append(arrived, m.ID)
			}
			switch {
			case errs == nil && !slices.Contains(arrived, "next"):
				t.Errorf("confirmed, but lost: the log has %q after %d requests", arrived, requests)
			case name == "idempotent":
				if errs == nil || !outbox.IsUnavailable(errs[0]) || !strings.Contains(errs[0].Error(), "Try: kgo.DisableIdempotentWrite") || requests != 0 {
					t.Errorf("%d requests, %v", requests, errs)
				}
			case errs != nil || requests != 3 || !slices.Contains(arrived, "first"):
				t.Errorf("vacuous: %d requests, the log has %q, %v", requests, arrived, errs)
			}
		})
	}
}

func TestKafkaCheck(t *testing.T) {
	k := newKafka(t, "refunds")
	client := k.client(t)
	admin := kadm.NewClient(k.direct)
	set := func(name, value string) {
		t.Helper()
		if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, "refunds"); err != nil {
			t.Fatal(err)
		}
	}
	check := func(client *kgo.Client, topic string, want ...string) {
		t.Helper()
		findings, err := kafkabroker.Check(t.Context(), client, topic)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(findings, "\n")
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%s: %q is not found", topic, w)
			}
		}
		if len(findings) != len(want) || strings.Count(all, "Try: ") != len(want) {
			t.Errorf("%s: want %d findings:\n%s", topic, len(want), all)
		}
	}
	const one, few, unclean, small = "one replica", "confirms a record when a single broker has stored it", "may lose confirmed records", "refuses records larger than 1000 bytes"
	set("min.insync.replicas", "2")
	set("max.message.bytes", "2000000")
	check(client, "refunds", one)
	set("min.insync.replicas", "1")
	check(client, "refunds", one, few)
	set("unclean.leader.election.enable", "true")
	set("max.message.bytes", "1000")
	check(client, "refunds", one, few, unclean, small)
	check(client, "nowhere", "cannot be used")
	check(k.client(t, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()), "nowhere", "cannot be used", "does not wait")
	if findings, err := kafkabroker.Check(t.Context(), client); err != nil || len(findings) != 0 {
		t.Errorf("no topics: %v, %v", findings, err)
	}
}
