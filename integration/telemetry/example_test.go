package telemetry

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/telemetry"
	"github.com/oncelib/once/webhook"
)

// parts are what a service has: each is filled from one Telemetry.
type parts struct {
	engine *once.Engine[*sql.Tx]
	jobs   *once.Engine[*lease.Run]
	relay  *outbox.Relay
	inbox  *inbox.Inbox[*sql.Tx]
	runner *saga.Runner[*sql.Tx]
	sender *webhook.Relay
	client *http.Client
}

func wireService(ctx context.Context, s *sqlstore.Store, publisher outbox.Publisher, orders *saga.Definition[string, string], logger *slog.Logger) (parts, natsbroker.ConsumerConfig, error) {
	watch := gauge.NewWatch(gauge.Config{Log: logger})
	metrics := onceprom.New(onceprom.Config{Gauges: watch})
	tracer, err := onceotel.New(onceotel.Config{Broker: "nats"})
	if err != nil {
		return parts{}, natsbroker.ConsumerConfig{}, err
	}
	prometheus.MustRegister(metrics)
	tel := telemetry.Telemetry{Logger: logger, Metrics: metrics, Tracer: tracer}

	engine := once.New(s, tel.Engine(once.Config{Cache: 1 << 20}))
	box := outbox.New(s, tel.Outbox(outbox.Config{}))
	relay := box.Relay(publisher, tel.Relay(outbox.RelayConfig{}))
	in := inbox.New(engine, tel.Inbox(inbox.Config{Consumer: "billing"}))
	consumer := natsbroker.ConsumerConfig{Log: logger}
	jobs := once.New(lease.New(s, tel.Lease(lease.Config{})), tel.Engine(once.Config{}))
	runner := saga.NewRunner(s, tel.Saga(saga.Config{}), orders)
	hooks := webhook.New(s, tel.Webhook(webhook.Config{PlainSecrets: true}))
	sender := hooks.Relay(tel.WebhookRelay(webhook.RelayConfig{}))
	client := retryhttp.NewClient(tel.Client(&retryhttp.Transport{Keys: true}))

	watch.Add(gauge.Operations(s), gauge.Pool(s), engine, box, in, saga.Gauges(s), webhook.Gauges(s), sender)
	go func() { _ = watch.Run(ctx) }()
	return parts{engine, jobs, relay, in, runner, sender, client}, consumer, nil
}

var _ = wireService // it is on a page
