package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
	"github.com/oncelib/once/retry"
)

// embedded starts a nats-server in this process and returns a connection to it.
func embedded(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return connect(t, "", nats.InProcessServer(s))
}

func connect(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(options, nats.Timeout(time.Minute), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// realNATS starts the nats-server of the system as a process.
func realNATS(t *testing.T) (*testenv.NATS, *nats.Conn) {
	t.Helper()
	testenv.Need(t, "nats-server")
	n, err := testenv.StartNATS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n, connect(t, n.URL())
}

// stream makes a stream for subjects, and a function that reads what has come to it since the last call.
func stream(t *testing.T, nc *nats.Conn, subjects ...string) (jetstream.JetStream, func(*testing.T) []message.Message) {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: subjects, MaxMsgSize: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	var read uint64
	return js, func(t *testing.T) []message.Message {
		t.Helper()
		s, err := js.Stream(t.Context(), "EVENTS")
		if err != nil {
			t.Fatal(err)
		}
		newest := s.CachedInfo().State.LastSeq
		if newest == read {
			return nil
		}
		consumer, err := js.OrderedConsumer(t.Context(), "EVENTS", jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: read + 1})
		if err != nil {
			t.Fatal(err)
		}
		var arrived []message.Message
		for read < newest {
			batch, err := consumer.Fetch(int(newest - read))
			if err != nil {
				t.Fatal(err)
			}
			for m := range batch.Messages() {
				at, err := m.Metadata()
				if err != nil {
					t.Fatal(err)
				}
				read = at.Sequence.Stream
				got, err := parse(m)
				if err != nil {
					t.Fatal(err)
				}
				arrived = append(arrived, got)
			}
			if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoHeartbeat) { // of a server that has no time to send one
				t.Fatal(err)
			}
		}
		return arrived
	}
}

func parse(m jetstream.Msg) (message.Message, error) {
	return outboxtest.Message(m.Subject(), "ce-", true, func(yield func(name, value string) bool) {
		for name, values := range m.Headers() {
			if !yield(name, values[0]) {
				return
			}
		}
	}, m.Data())
}

func tooLarge(m *message.Message) { m.Payload = make([]byte, 65<<10) }

func TestPublisherOnNATS(t *testing.T) {
	js, received := stream(t, embedded(t), "refunds", "payouts.>")
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: natsbroker.Publisher(js), Topics: []string{"refunds", "payouts.eu.now"}, Received: received, Reject: tooLarge,
	})
}

// TestNATSProcess: a server that is killed and started again.
func TestNATSProcess(t *testing.T) {
	n, nc := realNATS(t)
	js, received := stream(t, nc, "refunds", "payouts")
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: natsbroker.Publisher(js), Topics: []string{"refunds", "payouts"}, Received: received, Reject: tooLarge,
		Break: func(t *testing.T) func() {
			t.Helper()
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := n.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				reconnected(t, nc)
			}
		},
	})
}

func reconnected(t *testing.T, nc *nats.Conn) {
	t.Helper()
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)
	if nc.Status() != nats.CONNECTED {
		<-status
	}
}

// TestNATSIsKilledWhilePublishing: each message is published until it is confirmed, while the server is killed again and
// again. All arrive, those of a key in order behind a consumer that drops what it has seen.
func TestNATSIsKilledWhilePublishing(t *testing.T) {
	testenv.Prove(t)
	n, nc := realNATS(t)
	js, received := stream(t, nc, "refunds")
	p := natsbroker.Publisher(js)
	const keys, each, kills = 40, 500, 6
	confirmed := make(chan struct{}, keys*each)
	killed := make(chan error, 1)
	go func() {
		defer close(killed)
		for range kills {
			for range keys * each / (kills + 1) {
				<-confirmed
			}
			if err := n.Kill(); err != nil {
				killed <- err
				return
			}
			if err := n.Restart(context.Background()); err != nil {
				killed <- err
				return
			}
		}
	}()
	var waiting []message.Message
	for i := range keys * each {
		waiting = append(waiting, message.Message{
			Topic: "refunds", Key: fmt.Sprint("key ", i%keys), Seq: int64(i/keys) + 1, ID: fmt.Sprint("id", i), Type: "test", Source: "test",
		})
	}
	calls := 0
	for len(waiting) > 0 {
		calls++
		batch := waiting[:min(len(waiting), 1000)]
		errs := p.Publish(t.Context(), batch)
		var failed []message.Message
		for i, m := range batch {
			switch {
			case errs == nil || errs[i] == nil:
				confirmed <- struct{}{}
			case !outbox.IsUnavailable(errs[i]):
				t.Fatalf("message %s: %v", m.ID, errs[i])
			default:
				failed = append(failed, m)
			}
		}
		waiting = append(failed, waiting[len(batch):]...)
		if failed != nil {
			reconnected(t, nc)
		}
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	reconnected(t, nc)
	last := map[string]int64{}
	deliveries, duplicates := 0, 0
	for _, m := range received(t) {
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
	for key, seq := range last {
		if seq != each {
			t.Errorf("%s ends with %d", key, seq)
		}
	}
	if len(last) != keys {
		t.Errorf("%d keys have arrived", len(last))
	}
	testenv.Reportf(t, "%d messages, %d kills of nats-server: %d calls of Publish, %d deliveries, %d duplicates", keys*each, kills, calls, deliveries, duplicates)
}

// TestNATSRefusals: which errors are of the message, and which of the destination.
func TestNATSRefusals(t *testing.T) {
	nc := embedded(t)
	js, _ := stream(t, nc, "refunds.>")
	p := natsbroker.Publisher(js)
	for name, c := range map[string]struct {
		message message.Message
		is      func(error) bool
	}{
		"no stream":         {message.Message{Topic: "nowhere"}, outbox.IsUnavailable},
		"wildcard":          {message.Message{Topic: "refunds.*"}, retry.IsPermanent},
		"full wildcard":     {message.Message{Topic: "refunds.>"}, retry.IsPermanent},
		"empty word":        {message.Message{Topic: "refunds..eu"}, retry.IsPermanent},
		"space":             {message.Message{Topic: "refunds.e u"}, retry.IsPermanent},
		"line break":        {message.Message{Topic: "refunds.eu", Headers: map[string]string{"x": "a\nb"}}, retry.IsPermanent},
		"larger than max":   {message.Message{Topic: "refunds.eu", Payload: make([]byte, 2<<20)}, retry.IsPermanent},
		"larger than limit": {message.Message{Topic: "refunds.eu", Payload: make([]byte, 65<<10)}, retry.IsPermanent},
	} {
		c.message.ID = name
		errs := p.Publish(t.Context(), []message.Message{c.message})
		if errs == nil || !c.is(errs[0]) {
			t.Errorf("%s: %v", name, errs)
		}
	}
	full, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	if err != nil {
		t.Fatal(err)
	}
	one := []message.Message{{Topic: "full", ID: "1"}}
	if errs := p.Publish(t.Context(), one); errs != nil {
		t.Fatal(errs)
	}
	if errs := p.Publish(t.Context(), one); errs != nil {
		t.Errorf("a duplicate is confirmed: %v", errs)
	}
	if errs := p.Publish(t.Context(), []message.Message{{Topic: "full", ID: "2"}}); errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Errorf("a full stream: %v", errs)
	}
	if n := full.CachedInfo().State.Msgs; n > 1 {
		t.Errorf("%d messages", n)
	}
	nc.Close()
	if errs := p.Publish(t.Context(), one); errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Errorf("a closed connection: %v", errs)
	}
}

// TestNATSReusedID: a stream drops a second delivery of a message, and says that it has the message. It does not drop another message
// that has the same ID.
func TestNATSReusedID(t *testing.T) {
	js, received := stream(t, embedded(t), "refunds", "ledger")
	p := natsbroker.Publisher(js)
	all := []message.Message{
		{Topic: "refunds", Payload: []byte("1")}, {Topic: "refunds", Payload: []byte("2")}, {Topic: "ledger", Payload: []byte("1")},
		{Topic: "refunds", Key: "a", Seq: 1}, {Topic: "refunds", Key: "a", Seq: 2}, {Topic: "refunds", Key: "b", Seq: 1},
		{Topic: "refunds", Key: "a", Seq: 1, Type: message.TypeSkipped}, {Topic: "refunds", Key: "a", Seq: 1, Source: "other"},
		{Topic: "refunds", Key: "a", Seq: 1, Headers: map[string]string{"a": "1", "b": "2", "c": "3"}},
	}
	for i := range all {
		all[i].ID = "one"
	}
	for attempt := range 5 { // of a relay that gets no answers
		for i := range all {
			all[i].Delivery = attempt + 1
			if errs := p.Publish(t.Context(), all[i:i+1]); errs != nil {
				t.Fatal(errs)
			}
		}
	}
	arrived := received(t)
	for i, m := range arrived {
		if want := all[i%len(all)]; m.Topic != want.Topic || string(m.Payload) != string(want.Payload) || m.Key != want.Key || m.Seq != want.Seq || m.Type != want.Type {
			t.Errorf("message %d is %+v, want %+v", i, m, want)
		}
	}
	if len(arrived) != len(all) {
		t.Errorf("%d messages have arrived, want %d", len(arrived), len(all))
	}
}

// TestNATSEnsureStream: a stream is created as the promise needs it. One that exists, or is asked for, with settings that endanger the promise is refused, and not changed.
func TestNATSEnsureStream(t *testing.T) {
	nc := embedded(t)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	good := jetstream.StreamConfig{Name: "GOOD", Subjects: []string{"refunds", "payouts.>"}, MaxBytes: 64 << 20}
	for range 2 {
		if err := natsbroker.EnsureStream(t.Context(), js, good); err != nil {
			t.Fatal(err)
		}
	}
	findings, err := natsbroker.Check(t.Context(), js, "refunds", "payouts.eu")
	if err != nil || len(findings) != 2 || !strings.Contains(findings[0], "max_payload") || !strings.Contains(findings[1], "has one replica") {
		t.Errorf("%q, %v", findings, err)
	}
	for name, c := range map[string]jetstream.StreamConfig{
		"DROPS":  {MaxMsgs: 10},
		"MEMORY": {Storage: jetstream.MemoryStorage, Duplicates: time.Hour},
	} {
		c.Name, c.Subjects = name, []string{name}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		settings jetstream.StreamConfig
		want     string
	}{
		{jetstream.StreamConfig{}, "cannot be the name of a stream"},
		{jetstream.StreamConfig{Name: "a.b", Subjects: []string{"b"}}, "cannot be the name of a stream"},
		{jetstream.StreamConfig{Name: "YOUNG", Subjects: []string{"young"}, MaxAge: time.Minute}, "deletes messages after 1m0s"},
		{jetstream.StreamConfig{Name: "MEMORY", Subjects: []string{"MEMORY"}}, "keeps its messages in memory"},
		{jetstream.StreamConfig{Name: "DROPS", Subjects: []string{"DROPS"}}, "deletes old messages when the "},
		{jetstream.StreamConfig{Name: "GOOD", Subjects: []string{"refunds", "mails"}}, "does not have the subject mails"},
		{jetstream.StreamConfig{Name: "GOOD", Subjects: []string{"refunds"}, Replicas: 3}, "has 1 replicas, but this program requires 3"},
	} {
		if err := natsbroker.EnsureStream(t.Context(), js, c.settings); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%+v: %v", c.settings, err)
		}
	}
	if _, err := js.Stream(t.Context(), "YOUNG"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a stream that was refused: %v", err)
	}
	nc.Close()
	if err := natsbroker.EnsureStream(t.Context(), js, good); err == nil {
		t.Error("a closed connection is not told")
	}
}

func TestNATSCheck(t *testing.T) {
	js, _ := stream(t, embedded(t), "refunds")
	for _, c := range []jetstream.StreamConfig{
		{Name: "GOOD", Duplicates: time.Hour, Discard: jetstream.DiscardNew},
		{Name: "MEMORY", Duplicates: time.Hour, Storage: jetstream.MemoryStorage},
		{Name: "SILENT", Duplicates: time.Hour, NoAck: true},
		{Name: "FORGETS", Duplicates: time.Minute},
		{Name: "DROPS", Duplicates: time.Hour, MaxBytes: 1 << 20},
		{Name: "AGES", Duplicates: time.Minute, MaxAge: time.Hour},
		{Name: "SMALL", Duplicates: time.Hour, MaxMsgSize: 1 << 10},
		{Name: "UNHEARD", Duplicates: time.Hour, Retention: jetstream.InterestPolicy},
	} {
		c.Subjects = []string{strings.ToLower(c.Name), strings.ToLower(c.Name) + ".all"}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for topic, want := range map[string][]string{
		"good":    nil,
		"memory":  {"keeps its messages in memory"},
		"silent":  {"sends no confirmations"},
		"forgets": {"remembers message IDs for only 1m0s"},
		"drops":   {"deletes old messages when the "},
		"ages":    {"remembers message IDs for only 1m0s", "deletes messages after 1h0m0s"},
		"small":   {"refuses messages larger than 1024 bytes"},
		"unheard": {"keeps messages only for its consumers"},
		"nowhere": {"No JetStream stream has the subject nowhere"},
	} {
		topics := []string{topic}
		if topic != "nowhere" {
			topics = append(topics, topic+".all") // of the same stream
		}
		findings, err := natsbroker.Check(t.Context(), js, topics...)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "The server refuses messages larger than 1048576 bytes") // its default
		if topic != "nowhere" {
			want = append(want, "has one replica")
		}
		for _, finding := range findings {
			at := slices.IndexFunc(want, func(w string) bool { return strings.Contains(finding, w) })
			if at < 0 || !strings.Contains(finding, "Try: ") {
				t.Errorf("%s: %s", topic, finding)
				continue
			}
			want = slices.Delete(want, at, at+1)
		}
		if len(want) > 0 {
			t.Errorf("%s: not found: %q", topic, want)
		}
	}
	js.Conn().Close()
	if _, err := natsbroker.Check(t.Context(), js, "good"); err == nil {
		t.Error("a closed connection is not told")
	}
}

// TestNATSSendsNothingLater: what is published while there is no connection is not kept by the client and sent when there
// is one: by then another process may have delivered it, and later ones of its key.
func TestNATSSendsNothingLater(t *testing.T) {
	n, nc := realNATS(t)
	js, received := stream(t, nc, "refunds")
	p := natsbroker.Publisher(js)
	lost := nc.StatusChanged(nats.RECONNECTING)
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	<-lost
	nc.RemoveStatusListener(lost)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if errs := p.Publish(ctx, []message.Message{{Topic: "refunds", ID: "early"}}); errs == nil || !outbox.IsUnavailable(errs[0]) {
		t.Error(errs)
	}
	if err := n.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	reconnected(t, nc)
	if errs := p.Publish(t.Context(), []message.Message{{Topic: "refunds", ID: "late"}}); errs != nil {
		t.Fatal(errs)
	}
	if arrived := received(t); len(arrived) != 1 || arrived[0].ID != "late" {
		t.Errorf("arrived: %+v", arrived)
	}
}
