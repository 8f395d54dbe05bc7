package push

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	watermillmessage "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/broker/watermillbroker"
	"github.com/oncelib/once/inbox"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
)

// TestWatermillRouterAppliesOnce: through a router, each message is applied once, although it is delivered again after an error, a
// panic and a commit whose acknowledgement is lost; what never succeeds becomes a dead letter.
func TestWatermillRouterAppliesOnce(t *testing.T) {
	t.Parallel()
	onEach(t, testWatermill[pgx.Tx], testWatermill[*sql.Tx])
}

func testWatermill[TX any](t *testing.T, g *fixture[TX]) {
	in := g.inbox(inbox.InOrder)
	tries := map[string]int{}
	apply := watermillmessage.HandlerFunc(func(m *watermillmessage.Message) ([]*watermillmessage.Message, error) {
		tx := watermillbroker.Tx[TX](m.Context())
		_, err := g.store.On(tx).Exec(m.Context(), store.Statement{SQL: g.text("insert into effect (event, k, seq, before_seq) values (?, ?, 0, 0)").SQL, Args: []any{m.UUID, m.Metadata.Get("ce_partitionkey")}})
		if err != nil {
			return nil, err
		}
		tries[string(m.Payload)]++
		switch try := tries[string(m.Payload)]; {
		case string(m.Payload) == "panics" && try == 1:
			panic("the handler panics")
		case string(m.Payload) == "fails" && try == 1, string(m.Payload) == "poison":
			return nil, errors.New("it fails")
		}
		return nil, nil
	})
	lost := map[string]bool{}
	loseAck := func(h watermillmessage.HandlerFunc) watermillmessage.HandlerFunc {
		return func(m *watermillmessage.Message) ([]*watermillmessage.Message, error) {
			produced, err := h(m)
			if err == nil && string(m.Payload) == "acknowledged late" && !lost[m.UUID] {
				lost[m.UUID] = true
				return nil, errors.New("the acknowledgement is lost")
			}
			return produced, err
		}
	}
	channel := gochannel.NewGoChannel(gochannel.Config{Persistent: true, BlockPublishUntilSubscriberAck: true}, nil)
	router, err := watermillmessage.NewRouter(watermillmessage.RouterConfig{}, watermill.NopLogger{})
	must(t, err)
	router.AddHandler("billing", "refunds", channel, "", nil, apply).AddMiddleware(loseAck, watermillbroker.Middleware(in))
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()

	p := watermillbroker.Publisher(channel)
	payloads := []string{"good", "fails", "panics", "acknowledged late", "poison"}
	for i, payload := range payloads {
		m := event("refunds", payload, 1)
		m.Payload = []byte(payload)
		for range 1 + i%2 { // some twice
			if errs := p.Publish(ctx, []oncemessage.Message{m}); errs != nil {
				t.Error(errs)
			}
		}
	}
	must(t, errors.Join(channel.Publish("refunds", watermillmessage.NewMessage("plain", nil)), router.Close(), channel.Close(), <-ended))
	if n, all := g.count(t, "select count(distinct event) from effect"), g.count(t, "select count(*) from effect"); n != len(payloads) || all != n {
		t.Errorf("%d effects of %d messages, want %d", all, n, len(payloads))
	}
	if tries["fails"] != 2 || tries["panics"] != 2 || tries["poison"] != 3 || tries["good"] != 1 || tries["acknowledged late"] != 1 || len(lost) != 1 {
		t.Errorf("tries: %v", tries)
	}
	g.wantLetters(t, "exhausted", 1)
}
