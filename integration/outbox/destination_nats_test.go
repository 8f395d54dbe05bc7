package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
)

// jetStream is a nats-server that can be killed, with one stream.
type jetStream struct {
	*testenv.NATS

	js    jetstream.JetStream
	kills int
}

func newJetStream(t *testing.T, subjects ...string) *jetStream {
	t.Helper()
	testenv.Need(t, "nats-server")
	server, err := testenv.StartNATS(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	js, closeJS, err := connectNATS(server.URL())
	must(t, err)
	t.Cleanup(closeJS)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: subjects})
	must(t, err)
	return &jetStream{NATS: server, js: js}
}

// connectNATS connects to a server that may be down.
func connectNATS(url string) (js jetstream.JetStream, closeJS func(), err error) {
	nc, err := nats.Connect(url, nats.Timeout(patience), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	return js, nc.Close, err
}

// newStream is a stream as the destination of relays.
func newStream(t *testing.T, p *relayPlan) *jetStream {
	t.Helper()
	n := newJetStream(t, "refunds", "mails", "audit")
	p.URL = n.URL()
	return n
}

// natsPublisher is the publisher of a relay process.
func natsPublisher(url string) (outbox.Publisher, func(), error) {
	js, closeJS, err := connectNATS(url)
	if err != nil {
		return nil, nil, err
	}
	return natsbroker.Publisher(js), closeJS, nil
}

// disturb kills the server, but not all the time.
func (n *jetStream) disturb(t *testing.T) {
	t.Helper()
	if n.kills < 4 {
		n.kills++
		must(t, n.Kill())
		must(t, n.Restart(context.WithoutCancel(t.Context())))
	}
}

func (n *jetStream) setCalm() {}

func (n *jetStream) met() (int, string) {
	return n.kills, fmt.Sprintf("%d kills of nats-server", n.kills)
}

// arrived returns all that the stream holds, in its order.
func (n *jetStream) arrived(t *testing.T) []message.Message {
	t.Helper()
	nc := n.js.Conn()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	if nc.Status() != nats.CONNECTED {
		<-connected
	}
	stream, err := n.js.Stream(t.Context(), "EVENTS")
	must(t, err)
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	must(t, err)
	var list []message.Message
	for want := stream.CachedInfo().State.Msgs; uint64(len(list)) < want; {
		m, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if errors.Is(err, jetstream.ErrNoHeartbeat) { // the server has had no time to send one
			continue
		}
		must(t, err)
		got, err := outboxtest.Message(m.Subject(), "ce-", true, func(yield func(name, value string) bool) {
			for name, values := range m.Headers() {
				if !yield(name, values[0]) {
					return
				}
			}
		}, m.Data())
		must(t, err)
		list = append(list, got)
	}
	return list
}
