package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// jetStream is a nats-server that can be killed, with one stream.
type jetStream struct {
	*testenv.NATS

	js jetstream.JetStream
}

func newJetStream(t *testing.T) *jetStream {
	t.Helper()
	testenv.Need(t, "nats-server")
	server, err := testenv.StartNATS(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	n := &jetStream{NATS: server, js: connect(t, server.URL())}
	_, err = n.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{topic}})
	must(t, err)
	return n
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, natsOptions()...)
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return js
}

// duplicate publishes a message once more, so that the stream does not know it again.
func (n *jetStream) duplicate(t *testing.T, m message.Message) {
	t.Helper()
	message := &nats.Msg{Subject: m.Topic, Data: m.Payload, Header: nats.Header{}}
	for name, value := range cloudevent.Headers(&m, cloudevent.NATS) {
		message.Header[name] = []string{value}
	}
	_, err := n.js.PublishMsg(t.Context(), message)
	must(t, err)
}

// answers returns what consumers tell the server: "+ACK", "-NAK", "+WPI".
func (n *jetStream) answers(t *testing.T) <-chan string {
	t.Helper()
	answers := make(chan string, 1000)
	sub, err := n.js.Conn().Subscribe("$JS.ACK.>", func(m *nats.Msg) { answers <- string(m.Data[:4]) })
	must(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	must(t, n.js.Conn().Flush())
	return answers
}

// into implements broker.
func (n *jetStream) into(p *plan) { p.NATS = n.URL() }

// points implements broker.
func (n *jetStream) points() []int64 { return []int64{1, 2, 5, 8, 9, 12, 13, 14} }

// publish implements broker.
func (n *jetStream) publish(t *testing.T, list []message.Message) {
	t.Helper()
	publish(t, natsbroker.Publisher(n.js), list)
}

// repeat implements broker.
func (n *jetStream) repeat(t *testing.T, list []message.Message) {
	t.Helper()
	for _, m := range list {
		n.duplicate(t, m)
	}
}

// disturb implements broker: the server is killed.
func (n *jetStream) disturb() error { return errors.Join(n.Kill(), n.Restart(context.Background())) }

// waitDone waits until all messages are acknowledged.
func (n *jetStream) waitDone(t *testing.T) {
	t.Helper()
	until(t, "the acknowledgements", func() bool {
		c, err := n.js.Consumer(t.Context(), "EVENTS", "billing")
		if err != nil {
			return false
		}
		info := c.CachedInfo()
		return info.NumPending == 0 && info.NumAckPending == 0
	})
}

var natsConfig = natsbroker.ConsumerConfig{Subjects: []string{topic}, AckWait: time.Minute, Log: quiet}

// TestNATSMessagesAreAppliedOnce: duplicates, messages that come in the wrong order, and handlers that fail: each message is applied once, in the order
// of its key, and acknowledged. What cannot be decoded is a dead letter.
func TestNATSMessagesAreAppliedOnce(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	list := batch(5, 1, 20)
	swapped := slices.Clone(list)
	for i := 0; i+7 < len(swapped); i += 9 {
		swapped[i], swapped[i+7] = swapped[i+7], swapped[i]
	}
	for i, m := range swapped {
		n.duplicate(t, m)
		if i%3 == 0 {
			n.duplicate(t, m)
		}
	}
	_, err := n.js.Publish(t.Context(), topic, []byte("this is no event"))
	must(t, err)
	e := &events{}
	in := g.inbox(e)
	var failed sync.Map
	stop := start(t, func(ctx context.Context) error {
		return natsbroker.Consume(ctx, n.js, in, func(ctx context.Context, tx sqlTx, m message.Message) error {
			if _, before := failed.LoadOrStore(m.ID, true); !before && m.Seq%4 == 0 {
				return errNow
			}
			return g.apply(ctx, tx, m)
		}, natsConfig)
	})
	g.waitFor(t, len(list))
	n.waitDone(t)
	stop()
	if dead := g.count(t, "select count(*) from once_deadletter where class = 'malformed' and source = 'nats' and event_id like 'EVENTS/%'"); dead != 1 {
		t.Errorf("%d dead letters", dead)
	}
	g.exec(t, "delete from once_deadletter where class = 'malformed'")
	g.check(t, len(list), 5)
	if e.count(inbox.EventDuplicate) == 0 || e.count(inbox.EventParked) == 0 || e.count(inbox.EventFailed) == 0 {
		t.Error("the run has not met what it is for")
	}
}

// TestNATSEventsOfTheSDK: what the official SDK for Go sends to NATS is applied, also what has no header at all. The file is explained in
// the test of package cloudevent.
func TestNATSEventsOfTheSDK(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	text, err := os.ReadFile("../../message/cloudevent/testdata/sdk_nats.json")
	must(t, err)
	var all []struct {
		Headers nats.Header
		Data    []byte
	}
	must(t, json.Unmarshal(text, &all))
	for _, sent := range all {
		_, err := n.js.PublishMsg(t.Context(), &nats.Msg{Subject: topic, Header: sent.Headers, Data: sent.Data})
		must(t, err)
	}
	stop := start(t, func(ctx context.Context) error {
		return natsbroker.Consume(ctx, n.js, g.inbox(&events{}), g.apply, natsConfig)
	})
	n.waitDone(t)
	stop()
	if applied, dead := g.count(t, "select count(*) from applied where name = '50% of order 7'"), g.count(t, "select count(*) from once_deadletter"); applied != 10 || dead != 0 {
		t.Errorf("of %d events %d are applied, %d are dead letters", len(all), applied, dead)
	}
}

// TestNATSHandlerIsSlow: while a handler runs, the server is told so, and so it is of messages that wait for a worker.
func TestNATSHandlerIsSlow(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	publish(t, natsbroker.Publisher(n.js), batch(1, 1, 2))
	answers := n.answers(t)
	enough := make(chan struct{})
	cfg := natsConfig
	cfg.AckWait, cfg.Concurrency, cfg.Batch = time.Second, 1, 1
	start(t, func(ctx context.Context) error {
		return natsbroker.Consume(ctx, n.js, g.inbox(&events{}), func(ctx context.Context, tx sqlTx, m message.Message) error {
			<-enough
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	for range 6 {
		if a := receive(t, "a sign of life", answers); a != "+WPI" {
			t.Errorf("%s comes before the handler has returned", a)
		}
	}
	close(enough)
	g.waitFor(t, 2)
	n.waitDone(t)
	g.check(t, 2, 1)
}

// TestNATSDrains: when its context ends, a consumer waits for the handler that runs, acknowledges its message, and
// gives back the others at once.
func TestNATSDrains(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	publish(t, natsbroker.Publisher(n.js), batch(1, 1, 3))
	answers := n.answers(t)
	begun, free := make(chan string, 3), make(chan struct{})
	cfg := natsConfig
	cfg.Concurrency, cfg.Batch = 1, 1
	arrived := make(chan string, 100)
	cfg.Decode = func(m jetstream.Msg) (message.Message, error) { arrived <- m.Subject(); return natsbroker.Decode(m) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- natsbroker.Consume(ctx, n.js, g.inbox(&events{}), func(ctx context.Context, tx sqlTx, m message.Message) error {
			begun <- m.ID
			<-free
			return g.apply(ctx, tx, m)
		}, cfg)
	}()
	receive(t, "the first message", begun)
	for range 3 {
		receive(t, "all messages", arrived)
	}
	cancel()
	close(free)
	must(t, receive(t, "the end", ended))
	var got []string
	for len(got) < 3 {
		if a := receive(t, "an answer", answers); a != "+WPI" { // a slow machine
			got = append(got, a)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"+ACK", "-NAK", "-NAK"}) {
		t.Errorf("the server is told %q", got)
	}
	g.check(t, 1, 1)
	start(t, func(ctx context.Context) error {
		return natsbroker.Consume(ctx, n.js, g.inbox(&events{}), g.apply, cfg)
	})
	g.waitFor(t, 3)
	g.check(t, 3, 1)
}

// TestNATSServerIsKilled: the server dies while messages are applied, and so do connections to the server.
func TestNATSServerIsKilled(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	n, g := newJetStream(t), newPgx(t)
	proxy, err := faultnet.Listen(n.Addr())
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	list := batch(10, 1, 60)
	publish(t, natsbroker.Publisher(n.js), list)
	js := connect(t, "nats://"+proxy.Addr())
	cfg := natsConfig
	cfg.AckWait, cfg.Batch = time.Second, 8
	var log lines
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	var handled atomic.Int64
	resumed := make(chan struct{}, len(list)*100)
	start(t, func(ctx context.Context) error {
		return natsbroker.Consume(ctx, js, g.inbox(&events{}), func(ctx context.Context, tx pgxTx, m message.Message) error {
			if handled.Add(1)%20 == 0 {
				resumed <- struct{}{}
			}
			return g.apply(ctx, tx, m)
		}, cfg)
	})
	kills, cuts := 0, 0
	for range 4 {
		receive(t, "messages", resumed)
		kills++
		must(t, n.Kill())
		must(t, n.Restart(t.Context()))
		receive(t, "messages", resumed)
		cuts += proxy.CutAll()
	}
	g.waitFor(t, len(list))
	n.waitDone(t)
	g.check(t, len(list), 10)
	log.untilOver(t, "the consumer gets no messages")
	testenv.Count("messages", len(list))
	testenv.Reportf(t, "%d messages, nats-server killed %d times, %d connections cut, %d calls of the handler", len(list), kills, cuts, handled.Load())
}

// TestNATSRefusals: what Consume says of a configuration that cannot work, and of a stream that is missing.
func TestNATSRefusals(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	_, err := n.js.CreateConsumer(t.Context(), "EVENTS", jetstream.ConsumerConfig{Durable: "silent", AckPolicy: jetstream.AckNonePolicy})
	must(t, err)
	for name, cfg := range map[string]natsbroker.ConsumerConfig{
		"nothing to read":  {},
		"name":             {Subjects: []string{topic}, Durable: "a.b"},
		"negative":         {Subjects: []string{topic}, AckWait: -1},
		"negative batch":   {Subjects: []string{topic}, Batch: -1},
		"another consumer": {Subjects: []string{topic}, Durable: "silent"},
	} {
		cfg.Log = quiet
		err := natsbroker.Consume(t.Context(), n.js, g.inbox(&events{}), g.apply, cfg)
		if err == nil || name != "another consumer" && !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	stop := start(t, func(ctx context.Context) error {
		return natsbroker.Consume(ctx, n.js, g.inbox(&events{}), g.apply, natsbroker.ConsumerConfig{Subjects: []string{"later"}, Log: quiet})
	})
	_, err = n.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LATER", Subjects: []string{"later"}})
	must(t, err)
	m := batch(1, 1, 1)
	m[0].Topic = "later"
	publish(t, natsbroker.Publisher(n.js), m)
	g.waitFor(t, 1)
	stop()
}

// TestNATSCheckConsumer: a consumer that Consume has made has no dangerous settings, and each dangerous one is found.
func TestNATSCheckConsumer(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	start(t, func(ctx context.Context) error {
		cfg := natsConfig
		cfg.Durable = "good"
		return natsbroker.Consume(ctx, n.js, g.inbox(&events{}), g.apply, cfg)
	})
	until(t, "the consumer", func() bool { _, err := n.js.Consumer(t.Context(), "EVENTS", "good"); return err == nil })
	explicit := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: 1000}
	for name, c := range map[string]struct {
		change func(c *jetstream.ConsumerConfig)
		want   string
	}{
		"good":   {},
		"all":    {func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }, "does not wait for the acknowledgement of each message"},
		"gives":  {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 }, "gives a message up after 5 deliveries"},
		"hasty":  {func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second }, "when it is not acknowledged within 1s"},
		"few":    {func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 10 }, "at most 10 unacknowledged messages"},
		"new":    {func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy }, "does not begin with the first message"},
		"memory": {func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true }, "keeps its state in memory"},
		"backoff": {func(c *jetstream.ConsumerConfig) {
			c.MaxDeliver, c.BackOff = 3, []time.Duration{time.Minute, time.Hour}
		}, "its own backoff"},
	} {
		if c.change != nil {
			settings := explicit
			settings.Durable = name
			c.change(&settings)
			_, err := n.js.CreateConsumer(t.Context(), "EVENTS", settings)
			must(t, err)
		}
		findings, err := natsbroker.CheckConsumer(t.Context(), n.js, "EVENTS", name)
		must(t, err)
		all := strings.Join(findings, "\n")
		if !strings.Contains(all, c.want) || len(findings) != strings.Count(all, "Try: ") || c.want == "" && len(findings) > 0 || c.want != "" && len(findings) == 0 {
			t.Errorf("%s: %q", name, findings)
		}
	}
	if _, err := natsbroker.CheckConsumer(t.Context(), n.js, "EVENTS", "nowhere"); err == nil {
		t.Error("a consumer that is missing is not told")
	}
}

// TestNATSIsClosed: the server refuses the user from now on, and the client of NATS gives up. Consume ends with the host and the cause.
func TestNATSIsClosed(t *testing.T) {
	t.Parallel()
	n, g := newJetStream(t), newSQLite(t)
	ended := make(chan error, 1)
	go func() {
		ended <- natsbroker.Consume(t.Context(), n.js, g.inbox(&events{}), g.apply, natsConfig)
	}()
	publish(t, natsbroker.Publisher(n.js), batch(1, 1, 2))
	g.waitFor(t, 2)
	n.Configure(`authorization { user: other, password: "unknown" }`)
	must(t, n.Restart(t.Context()))
	if err := receive(t, "the end of Consume", ended); !errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), n.Addr()) {
		t.Errorf("Consume has ended with %v", err)
	}
}
