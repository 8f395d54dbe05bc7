package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/breaker"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/telemetry"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// warehouse runs behind the payments service, so that each panel of the dashboard has data: for each charge a saga books a carrier, which sometimes
// fails, and packs a parcel; its message goes through an outbox and an inbox, and a webhook informs the shop. It has a SQLite file of its own.
type warehouse struct {
	dir       string
	removeDir func() error
	db        *cli.Database
	store     *sqlstore.Store
	listener  net.Listener
	attempts  *attemptlog.Log
	limiter   *limit.Limiter
	quota     *limit.Quota
	breakers  *breaker.Hosts
	charges   chan string // hashes of keys
	cfg       warehouseParts
}

// warehouseParts are built from one Telemetry.
type warehouseParts struct {
	engine *once.Engine[*sql.Tx]
	cached *once.Engine[*sql.Tx]
	box    *outbox.Box[*sql.Tx]
	relay  *outbox.Relay
	inbox  *inbox.Inbox[*sql.Tx]
	hooks  *webhook.Hooks[*sql.Tx]
	sender *webhook.Relay
	sagas  *saga.Runner[*sql.Tx]
	parcel *saga.Definition[string, string]
	client *http.Client
}

const (
	warehouseTenant = "acme"
	warehousePool   = 16
	warehouseQuota  = 1 << 30
	warehouseQueue  = 64 // charges that wait for a parcel; later ones get none
)

// openWarehouse makes the database, and connects its instruments to tel.
func openWarehouse(ctx context.Context, tel telemetry.Telemetry) (w *warehouse, err error) {
	w = &warehouse{charges: make(chan string, warehouseQueue), limiter: limit.New(limit.Config{}), breakers: breaker.NewHosts(gobreaker.Settings{})}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the warehouse of the demo: %w", errors.Join(err, w.close(ctx)))
		}
	}()
	if w.dir, w.removeDir, err = ownFolder("once-demo-warehouse-"); err != nil {
		return w, err
	}
	if w.db, err = cli.OpenDatabase(ctx, "sqlite:"+filepath.Join(w.dir, "warehouse.db"), true); err != nil {
		return w, err
	}
	w.db.SetMaxOpenConns(warehousePool)
	if err := sqlstore.Migrate(ctx, w.db.DB, []migration.Set{attemptlog.Migrations, outbox.Migrations, inbox.Migrations, deadletter.Migrations, saga.Migrations, webhook.Migrations}...); err != nil {
		return w, err
	}
	if w.store, err = sqlstore.New(ctx, w.db.DB, sqlstore.Config{}); err != nil {
		return w, err
	}
	if w.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return w, err
	}
	w.attempts = attemptlog.New(w.store, attemptlog.Config{})
	w.wire(tel)
	_, _, err = w.cfg.hooks.Endpoints().Create(ctx, webhook.Endpoint{Tenant: warehouseTenant, URL: w.url("/hooks"), Types: []string{"*"}})
	return w, err
}

// wire builds each part from tel.
func (w *warehouse) wire(tel telemetry.Telemetry) {
	p := &w.cfg
	w.quota = limit.NewQuota(w.store, limit.QuotaConfig{Bytes: warehouseQuota})
	p.engine = once.New(w.store, tel.Engine(once.Config{Observer: w.attempts}))
	p.cached = once.New(w.store, tel.Engine(once.Config{Cache: 1 << 20, Shared: new(sharedMemory), Observer: w.attempts}))
	p.box = outbox.New(w.store, tel.Outbox(outbox.Config{}))
	p.inbox = inbox.New(p.engine, tel.Inbox(inbox.Config{Consumer: "shop"}))
	p.relay = p.box.Relay(outbox.PublisherFunc(w.publish), tel.Relay(outbox.RelayConfig{DeadLetters: true}))
	at := w.listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert // it is one
	p.hooks = webhook.New(w.store, tel.Webhook(webhook.Config{PlainSecrets: true, Guard: &ssrf.Guard{
		AllowHTTP: true, AllowPorts: []uint16{at.AddrPort().Port()}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}))
	p.sender = p.hooks.Relay(tel.WebhookRelay(webhook.RelayConfig{}))
	p.client = retryhttp.NewClient(tel.Client(&retryhttp.Transport{
		Dialect: retryhttp.Once(), Breaker: w.breakers.Of, Policy: retry.Policy{Attempts: 3, Base: 10 * time.Millisecond},
	}))
	book := saga.Call("book", func(ctx context.Context, key, parcel string) (string, error) {
		_ = w.post(ctx, "/quotes", "") // it has no key, so it is not sent again if it fails
		return "booked", w.post(ctx, "/labels", key)
	}).DedupedFor(time.Hour).Undo(func(context.Context, string, string, string) error { return nil })
	pack := saga.Tx("pack", w.pack).Last()
	p.parcel = saga.New("parcel", func(ctx saga.Context, parcel string) (string, error) {
		if _, err := book.Do(ctx, parcel); err != nil {
			return "", err
		}
		return pack.Do(ctx, parcel)
	}, book, pack)
	p.sagas = saga.NewRunner(w.store, tel.Saga(saga.Config{}), p.parcel)
}

// sources are the sources of the gauges of the warehouse.
func (w *warehouse) sources() []gauge.Source {
	p := &w.cfg
	return []gauge.Source{
		p.cached, p.box, p.inbox, deadletter.New(w.store, deadletter.Config{}), w.attempts, w.limiter, w.quota, w.breakers, gauge.Func(retry.BudgetGauges),
		saga.Gauges(w.store), webhook.Gauges(w.store), p.sender, gauge.Operations(w.store), gauge.Pool(w.store),
	}
}

// Observe implements [once.Observer]: it sees the charges.
func (w *warehouse) Observe(_ context.Context, e once.Event) {
	if e.Outcome != once.OutcomeExecuted || e.KeyHash == "" {
		return
	}
	select {
	case w.charges <- e.KeyHash:
	default: // the queue is full: this charge gets no parcel
	}
}

// run works until ctx ends.
func (w *warehouse) run(ctx context.Context, log *slog.Logger) error {
	mux := http.NewServeMux()
	var asked atomic.Int64
	mux.Handle("POST /labels", w.limiter.Middleware(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%2 == 1 { // every second request fails, so that the dashboard shows retries
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})))
	mux.HandleFunc("POST /quotes", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("POST /hooks", func(http.ResponseWriter, *http.Request) {})
	return together(ctx,
		func(ctx context.Context) error { return cli.Serve(ctx, devServer(mux, log), w.listener) },
		w.cfg.relay.Run, w.cfg.sender.Run, w.cfg.sagas.Run, w.quota.Run, w.work,
		func(ctx context.Context) error { return w.cfg.inbox.Run(ctx, unpack) },
	)
}

// work sends a parcel for each charge.
func (w *warehouse) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case charge := <-w.charges:
			if _, err := saga.Do(ctx, w.cfg.sagas, w.cfg.parcel, saga.ID{Tenant: warehouseTenant, Key: charge}, charge); err != nil {
				continue // the runner of the saga completes it
			}
			for _, e := range []*once.Engine[*sql.Tx]{w.cfg.cached, w.cfg.cached, w.cfg.engine} { // once it is executed, once found in the cache, and once in the database
				_, _ = once.Do(ctx, e, once.Operation{Name: "receipt", Scope: warehouseTenant, Key: charge}, func(ctx context.Context, tx *sql.Tx) (string, error) {
					return charge, w.cfg.box.Add(ctx, tx, message.Message{Topic: "receipts", Type: "receipt.written"})
				})
			}
		}
	}
}

// pack adds the message about a parcel, and sends the webhook.
func (w *warehouse) pack(ctx context.Context, tx *sql.Tx, parcel string) (string, error) {
	err := w.cfg.box.Add(ctx, tx, message.Message{Topic: "parcels", Key: parcel, Type: "parcel.packed"})
	if err == nil {
		err = w.cfg.hooks.Send(ctx, tx, webhook.Event{Tenant: warehouseTenant, Type: "parcel.packed", Data: []byte(`{"parcel":"` + parcel + `"}`)})
	}
	return parcel, err
}

// publish gives messages to the inbox of the shop.
func (w *warehouse) publish(ctx context.Context, list []message.Message) []error {
	errs := make([]error, len(list))
	for i, result := range w.cfg.inbox.HandleBatch(ctx, list, unpack) {
		errs[i] = result.Err
	}
	return errs
}

func unpack(context.Context, *sql.Tx, message.Message) error { return nil }

func (w *warehouse) url(path string) string { return "http://" + w.listener.Addr().String() + path }

// post sends a request to the carrier.
func (w *warehouse) post(ctx context.Context, path, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url(path), http.NoBody)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := w.cfg.client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("the carrier answers %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// close ends the warehouse, and removes its files.
func (w *warehouse) close(ctx context.Context) (err error) {
	if w.listener != nil {
		_ = w.listener.Close() // an error means that it is closed already
	}
	if w.attempts != nil {
		err = w.attempts.Close(context.WithoutCancel(ctx))
	}
	if w.db != nil {
		err = errors.Join(err, w.db.Close())
	}
	if w.removeDir != nil {
		err = errors.Join(err, w.removeDir())
	}
	return err
}

// sharedMemory is a cache that all processes of a service would share.
type sharedMemory struct{ kept sync.Map }

// Get implements [once.SharedCache].
func (m *sharedMemory) Get(_ context.Context, key string) ([]byte, error) {
	v, _ := m.kept.Load(key)
	b, _ := v.([]byte)
	return b, nil
}

// Add implements [once.SharedCache].
func (m *sharedMemory) Add(_ context.Context, key string, value []byte, _ time.Time) error {
	m.kept.LoadOrStore(key, value)
	return nil
}

// Replace implements [once.SharedCache].
func (m *sharedMemory) Replace(_ context.Context, key string, value []byte, _ time.Time) error {
	m.kept.Store(key, value)
	return nil
}
