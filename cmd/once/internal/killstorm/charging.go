package killstorm

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/sqlstore"
)

// ChargingConfig of a service whose orders are paid through providers.
type ChargingConfig struct {
	Store   *sqlstore.Store
	Dedupes string // address of the provider that dedupes
	Forgets string // address of the provider that does not
	Log     *slog.Logger
}

// Charging is a service whose operations call a provider: it writes an order, charges it and books it.
type Charging struct {
	cfg     ChargingConfig
	leases  *lease.Store
	key     once.Encrypter
	resume  func(context.Context, once.Operation) error
	handler *http.ServeMux
}

// ChargingTables are the statements that make the tables of the service.
func ChargingTables() []string {
	return []string{
		"create table if not exists demo_order (id varchar(64) not null primary key, provider varchar(16) not null)",
		"create table if not exists demo_booking (order_id varchar(64) not null primary key, charge varchar(64) not null)",
	}
}

const (
	ordersPath  = "/orders"
	ordersRoute = "POST " + ordersPath
	ordersScope = "global " + ordersRoute
	statusPath  = ordersPath + "/status/"

	leaseTTL     = time.Second
	completeEach = 300 * time.Millisecond
)

// Ways to pay for an order.
const (
	payChecked  = "checked"  // the provider is asked for the outcome of a call
	payRepeated = "repeated" // the call is made again, under the same key
	payUnsafely = "unsafely" // by the provider that ignores keys
)

// orderRequest is the request of a client.
type orderRequest struct {
	chargeRequest

	Pay string `json:"pay"`
}

// NewCharging returns a node of the service.
func NewCharging(cfg ChargingConfig) (*Charging, error) {
	encrypter, err := once.NewEncrypter(make([]byte, 32)) // a fixed key for the demo; a real service has a secret one
	if err != nil {
		return nil, err
	}
	c := &Charging{cfg: cfg, leases: lease.New(cfg.Store, lease.Config{TTL: leaseTTL}), key: encrypter, handler: http.NewServeMux()}
	engine := once.New(c.leases, once.Config{Encrypter: encrypter})
	protect := oncehttp.Config{
		Principal: oncehttp.SharedPrincipal(), Route: func(*http.Request) string { return ordersRoute }, CaptureRequest: true,
		StatusURL: func(_ *http.Request, key string) string { return statusPath + key },
	}
	c.resume = oncehttp.Resume(engine, protect, c.order)
	c.handler.Handle(ordersRoute, oncehttp.Handler(engine, protect, c.order))
	c.handler.Handle("GET "+statusPath+"{key}", oncehttp.StatusHandler(engine, protect, func(r *http.Request) (route, key string) { return ordersRoute, r.PathValue("key") }))
	c.handler.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return c, nil
}

// ServeHTTP implements [http.Handler].
func (c *Charging) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Complete completes the orders of nodes that were killed, until ctx ends.
func (c *Charging) Complete(ctx context.Context) error {
	return lease.Completer{
		Store: c.leases, Encrypter: c.key, Handlers: lease.Handlers{ordersRoute: c.resume}, Every: completeEach, CheckEvery: completeEach, Log: c.cfg.Log,
	}.Run(ctx)
}

// order executes one order in three phases.
func (c *Charging) order(w http.ResponseWriter, r *http.Request, run *lease.Run) {
	charge, err := c.execute(r, run)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	writeCharge(w, http.StatusCreated, charge)
}

func (c *Charging) execute(r *http.Request, run *lease.Run) (charge string, err error) {
	var o orderRequest
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return "", err
	}
	ctx := r.Context()
	write := func(phase, query string, args ...any) error {
		_, err := lease.InTx(ctx, run, c.cfg.Store, phase, func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, dialect.Text(c.cfg.Store.Dialect(), query), args...)
			return 0, err
		})
		return err
	}
	if err := write("order", "insert into demo_order (id, provider) values (?, ?)", o.Order, o.Pay); err != nil {
		return "", err
	}
	address, policy := c.payment(o)
	charge, err = lease.Call(ctx, run, "charge", func(ctx context.Context, key string) (string, error) {
		return askProvider(ctx, address, "/charges", key, o.chargeRequest)
	}, policy)
	if err != nil {
		return "", err
	}
	return charge, write("book", "insert into demo_booking (order_id, charge) values (?, ?)", o.Order, charge)
}

// payment returns the provider for the charge of an order, and the policy for an unknown outcome.
func (c *Charging) payment(o orderRequest) (address string, policy lease.CallPolicy) {
	switch o.Pay {
	case payChecked:
		return c.cfg.Dedupes, lease.CallPolicy{Check: lease.Check(func(ctx context.Context, key string) (string, lease.Finding, error) {
			charge, err := askProvider(ctx, c.cfg.Dedupes, "/void", key, o.chargeRequest)
			if err != nil {
				return "", lease.Unclear, err
			}
			if charge == "" {
				return "", lease.Voided, nil
			}
			return charge, lease.Happened, nil
		})}
	case payRepeated:
		return c.cfg.Dedupes, lease.CallPolicy{DedupedFor: 24 * time.Hour}
	}
	return c.cfg.Forgets, lease.CallPolicy{}
}

// provider never repeats a request that a provider may have got: the lease decides which call is repeated, and when.
var provider = retryhttp.NewClient(&retryhttp.Transport{AtMostOnce: true, Policy: retry.Policy{Total: callPatience}})

func askProvider(ctx context.Context, address, path, key string, req chargeRequest) (charge string, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return "", lease.NotSent(err)
	}
	r.Header.Set(keyHeader, key)
	resp, err := provider.Do(r)
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return "", lease.NotSent(err)
	}
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the provider answers %d %s", resp.StatusCode, b)
	}
	var a chargeAnswer
	err = json.Unmarshal(b, &a)
	return a.Charge, err
}
