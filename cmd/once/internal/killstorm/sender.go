package killstorm

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// hookRefund is the request of a client to a sender, and the data of its event.
type hookRefund struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	Cents  int64  `json:"cents"`
	Sent   int64  `json:"sent"` // when the event was sent, in microseconds since 1970
}

// hookEvent is the body of an event.
type hookEvent struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

const (
	hookRefundType = "refund.succeeded"
	endpointsPath  = "/webhooks/endpoints"

	// Shorter than in a service, so that a storm sees all of them.
	hookTTL     = time.Second
	hookTimeout = time.Hour // longer than a storm, so that an endpoint that hangs is never disabled
)

var hookSchedule = []time.Duration{
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second, 2 * time.Second,
	2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, time.Hour, time.Hour,
}

// SenderTables are the statements that make the table of a sender. No key keeps a refund from being made twice.
func SenderTables() []string {
	return []string{"create table if not exists demo_refund (tenant varchar(64) not null, name varchar(64) not null, cents bigint not null)"}
}

// Sender makes refunds, and sends an event for each to the endpoints of its tenant, which the tenant manages itself.
type Sender struct {
	http.Handler

	relay *webhook.Relay
}

// NewSender returns a node of the sender, whose endpoints are at ports of this host.
func NewSender(s *sqlstore.Store, ports []uint16, log *slog.Logger) (*Sender, error) {
	encrypter, err := once.NewEncrypter(make([]byte, 32)) // a fixed key for the demo; a real service has a secret one
	if err != nil {
		return nil, err
	}
	hooks := webhook.New(s, webhook.Config{
		Encrypter: encrypter,
		Guard:     &ssrf.Guard{AllowHTTP: true, AllowPorts: ports, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	relay := hooks.Relay(webhook.RelayConfig{Schedule: hookSchedule, Timeout: hookTimeout, TTL: hookTTL, Observer: webhook.LogRelay(log)})
	engine := once.New(s, once.Config{AfterCommit: relay.Wake, Observer: once.Log(log)})
	mux := http.NewServeMux()
	mux.Handle("POST "+refundsPath, oncehttp.Handler(engine, oncehttp.Config{Principal: bearer}, func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		var re hookRefund
		err := json.NewDecoder(r.Body).Decode(&re)
		if err == nil {
			_, err = tx.ExecContext(r.Context(), dialect.Text(s.Dialect(), "insert into demo_refund (tenant, name, cents) values (?, ?, ?)"), bearer(r), re.Name, re.Cents)
		}
		if err == nil {
			err = sendRefund(r.Context(), hooks, tx, bearer(r), re)
		}
		if err != nil {
			oncehttp.Fail(w, r, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	mux.Handle("/webhooks/", hooks.Handler("/webhooks", bearer))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return &Sender{mux, relay}, nil
}

// Run delivers the events until ctx ends.
func (s *Sender) Run(ctx context.Context) error { return s.relay.Run(ctx) }

func sendRefund(ctx context.Context, hooks *webhook.Hooks[*sql.Tx], tx *sql.Tx, tenant string, re hookRefund) error {
	now := time.Now()
	re.Sent = now.UnixMicro()
	data, err := json.Marshal(re)
	if err != nil {
		return err
	}
	body, err := json.Marshal(hookEvent{hookRefundType, now.UTC(), data})
	if err != nil {
		return err
	}
	if err := hooks.Send(ctx, tx, webhook.Event{Tenant: tenant, Type: hookRefundType, Data: body}); err != nil {
		return fmt.Errorf("send the event: %w", err)
	}
	return nil
}

// bearer returns the tenant that the request names. It is not authenticated, as it would be in a real service.
func bearer(r *http.Request) string {
	tenant, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return tenant
}
